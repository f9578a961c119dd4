-- Time that was lost, by cause: what chains said of each minute before they went on. Of a
-- chain there is its last state alone; these are for all of its time, and are kept.
CREATE TABLE losses (
	session  INTEGER NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
	seconds  INTEGER NOT NULL,          -- length of the window: 60, and 3600 of what is old
	start_ns INTEGER NOT NULL,          -- of the window, a multiple of its length
	chain    TEXT NOT NULL,             -- its id
	culprit  TEXT NOT NULL,             -- who or what took the time; '' where that has no name
	rule     TEXT NOT NULL,
	pid      INTEGER NOT NULL,          -- who lost
	lost_ns  INTEGER NOT NULL,          -- of wall time
	PRIMARY KEY (session, seconds, start_ns, chain, culprit)
) WITHOUT ROWID;
