-- Counts of the kernel between two ticks: exact even when records are
-- dropped. One row per tick, per ten seconds or per minute; coarser for old data.
CREATE TABLE counted (
	session      INTEGER NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
	seconds      INTEGER NOT NULL,          -- nominal length of the window: 1 (a tick), 10 or 60
	end_ns       INTEGER NOT NULL,          -- end of the window: a tick
	start_ns     INTEGER NOT NULL,          -- start of the window: the previous tick
	pid          INTEGER NOT NULL,
	op           INTEGER NOT NULL,
	calls        INTEGER NOT NULL,          -- entries
	done         INTEGER NOT NULL,          -- returns: total_ns and its parts have their times
	errors       INTEGER NOT NULL,
	nested       INTEGER NOT NULL,
	unmeasured   INTEGER NOT NULL,
	abandoned    INTEGER NOT NULL,          -- abandoned calls (entries without a return) found in this window
	total_ns     INTEGER NOT NULL,
	oncpu_ns     INTEGER NOT NULL,
	runnable_ns  INTEGER NOT NULL,
	throttled_ns INTEGER NOT NULL,
	inner_ns     INTEGER NOT NULL,          -- part of total_ns: inside traced calls made by these calls
	partial      INTEGER NOT NULL,
	partial_ns   INTEGER NOT NULL,          -- part of total_ns: on a CPU or blocked, unknown which
	PRIMARY KEY (session, seconds, end_ns, pid, op)
) WITHOUT ROWID;
