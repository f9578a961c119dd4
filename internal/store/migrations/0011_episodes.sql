-- Episodes of chains: each row begins when a cause starts to cost time and ends
-- when it has cost nothing for a while. Withdrawn episodes have no row.
CREATE TABLE episodes (
	session  INTEGER NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
	id       TEXT NOT NULL,               -- id of the chain and a number
	chain    TEXT NOT NULL,               -- id in chains
	rule     TEXT NOT NULL,
	severity TEXT NOT NULL,               -- highest severity: LOW, MEDIUM, HIGH
	pid      INTEGER NOT NULL,            -- process that lost time
	culprits TEXT NOT NULL,               -- JSON: as in chains, for its last minute
	from_ns  INTEGER,                     -- first and last slow step
	to_ns    INTEGER,
	told_ns  INTEGER NOT NULL,            -- when it was first reported
	ended_ns INTEGER,                     -- when it ended; NULL: it has not ended
	why      TEXT NOT NULL,               -- why it ended: over, process-ended, trace-ended, silenced; else ''
	hidden   INTEGER NOT NULL,            -- 1: hidden by a silence or a setting
	lost_ns  INTEGER NOT NULL,            -- total loss of the episode; while it lasts, as of its last report
	PRIMARY KEY (session, id)
) WITHOUT ROWID;

-- Causes that a user has silenced for a while.
CREATE TABLE silences (
	what     TEXT NOT NULL PRIMARY KEY,   -- id of a chain, a rule, or rule@culprit
	since_ns INTEGER NOT NULL,
	until_ns INTEGER NOT NULL,
	reason   TEXT NOT NULL,
	who      TEXT NOT NULL                -- user who silenced it
) WITHOUT ROWID;
