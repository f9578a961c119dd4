-- What programs said about themselves: each row is a period in which a label had one value.
CREATE TABLE labels (
	session INTEGER NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
	pid     INTEGER NOT NULL,
	tid     INTEGER NOT NULL,             -- thread; 0: the whole process
	key     TEXT NOT NULL,
	from_ns INTEGER NOT NULL,
	value   TEXT NOT NULL,
	to_ns   INTEGER,                      -- NULL: until the process or the recording ended
	PRIMARY KEY (session, key, pid, tid, from_ns)
) WITHOUT ROWID;
