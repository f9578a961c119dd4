-- Lost time by cause, per minute. The table chains has only the latest state of each chain;
-- losses has all of its time, and is kept.
CREATE TABLE losses (
	session  INTEGER NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
	seconds  INTEGER NOT NULL,          -- length of the window: 60, or 3600 for old windows
	start_ns INTEGER NOT NULL,          -- start of the window, a multiple of its length
	chain    TEXT NOT NULL,             -- id of the chain
	culprit  TEXT NOT NULL,             -- who or what took the time; '' if it has no name
	rule     TEXT NOT NULL,
	pid      INTEGER NOT NULL,          -- process that lost time
	lost_ns  INTEGER NOT NULL,          -- lost wall time
	PRIMARY KEY (session, seconds, start_ns, chain, culprit)
) WITHOUT ROWID;
