-- What the kernel counted from one tick to another: exact, whatever became of the
-- records. Every tick, every ten seconds and every minute; the coarser for what is old.
CREATE TABLE counted (
	session      INTEGER NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
	seconds      INTEGER NOT NULL,          -- about how long it is of: 1 (a tick), 10 or 60
	end_ns       INTEGER NOT NULL,          -- of the time that it is of: a tick
	start_ns     INTEGER NOT NULL,          -- the tick before
	pid          INTEGER NOT NULL,
	op           INTEGER NOT NULL,
	calls        INTEGER NOT NULL,          -- entries
	done         INTEGER NOT NULL,          -- returns: their times are in total_ns and its parts
	errors       INTEGER NOT NULL,
	nested       INTEGER NOT NULL,
	unmeasured   INTEGER NOT NULL,
	abandoned    INTEGER NOT NULL,          -- entries whose return will not come, found in this time
	total_ns     INTEGER NOT NULL,
	oncpu_ns     INTEGER NOT NULL,
	runnable_ns  INTEGER NOT NULL,
	throttled_ns INTEGER NOT NULL,
	inner_ns     INTEGER NOT NULL,          -- of total_ns: inside traced calls made by these
	partial      INTEGER NOT NULL,
	partial_ns   INTEGER NOT NULL,          -- of total_ns: on a CPU or blocked, it is not known which
	PRIMARY KEY (session, seconds, end_ns, pid, op)
) WITHOUT ROWID;
