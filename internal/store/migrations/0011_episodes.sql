-- The lives of chains: each row is one episode, from when a cause began to cost
-- something until it did not for a while. One that was taken back has no row.
CREATE TABLE episodes (
	session  INTEGER NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
	id       TEXT NOT NULL,               -- of the chain, and a number
	chain    TEXT NOT NULL,               -- id in chains
	rule     TEXT NOT NULL,
	severity TEXT NOT NULL,               -- the gravest: LOW, MEDIUM, HIGH
	pid      INTEGER NOT NULL,            -- who lost
	culprits TEXT NOT NULL,               -- JSON: as in chains, of its last minute
	from_ns  INTEGER,                     -- first and last slow step
	to_ns    INTEGER,
	told_ns  INTEGER NOT NULL,            -- when it was seen first
	ended_ns INTEGER,                     -- when it was seen to be over; NULL: it was not
	why      TEXT NOT NULL,               -- it is over: over, process-ended, trace-ended, silenced; else ''
	hidden   INTEGER NOT NULL,            -- 1: it was not shown: silenced, or not wanted by a setting
	lost_ns  INTEGER NOT NULL,            -- in all of it, however long; while it lasts, when it was told last
	PRIMARY KEY (session, id)
) WITHOUT ROWID;

-- Causes that nobody wants to hear of for a while.
CREATE TABLE silences (
	what     TEXT NOT NULL PRIMARY KEY,   -- id of a chain, a rule, or rule@culprit
	since_ns INTEGER NOT NULL,
	until_ns INTEGER NOT NULL,
	reason   TEXT NOT NULL,
	who      TEXT NOT NULL                -- the user who said so
) WITHOUT ROWID;
