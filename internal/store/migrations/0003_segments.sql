-- Calls and waits are in segments: files in DATABASE.d that name their session.
ALTER TABLE sessions DROP COLUMN log;
ALTER TABLE sessions DROP COLUMN log_bytes;
ALTER TABLE sessions DROP COLUMN capped_ns;
-- Number of calls of the segments that are in rollups; later calls are not yet.
ALTER TABLE sessions ADD COLUMN rolled INTEGER NOT NULL DEFAULT 0;

-- Sums of the calls that began in a time window: exact for all recorded
-- calls, even after their segments were deleted.
CREATE TABLE rollups (
	session      INTEGER NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
	seconds      INTEGER NOT NULL,          -- length of the window: 1, 10, 60, 600, 3600
	start_ns     INTEGER NOT NULL,          -- start of the window, a multiple of its length
	pid          INTEGER NOT NULL,
	op           INTEGER NOT NULL,
	calls        INTEGER NOT NULL,
	done         INTEGER NOT NULL,          -- calls whose return was seen
	errors       INTEGER NOT NULL,
	nested       INTEGER NOT NULL,
	unmeasured   INTEGER NOT NULL,
	total_ns     INTEGER NOT NULL,
	oncpu_ns     INTEGER NOT NULL,
	runnable_ns  INTEGER NOT NULL,
	throttled_ns INTEGER NOT NULL,
	partial      INTEGER NOT NULL,
	partial_ns   INTEGER NOT NULL,          -- part of total_ns: on a CPU or blocked, unknown which
	thinned      INTEGER NOT NULL,          -- 1: some records stand for more than one call
	sketch       BLOB NOT NULL,             -- durations, for quantiles
	PRIMARY KEY (session, seconds, start_ns, pid, op)
) WITHOUT ROWID;

-- The time range that has rollups of a length: [kept_ns, closed_ns).
CREATE TABLE tiers (
	session   INTEGER NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
	seconds   INTEGER NOT NULL,
	kept_ns   INTEGER NOT NULL,
	closed_ns INTEGER NOT NULL,
	PRIMARY KEY (session, seconds)
) WITHOUT ROWID;

-- The machine and the agent, once a second.
CREATE TABLE snapshots (
	session      INTEGER NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
	time_ns      INTEGER NOT NULL,
	cpu          REAL NOT NULL,             -- busy share of all CPUs, 0 to 1
	load1        REAL NOT NULL,
	load5        REAL NOT NULL,
	load15       REAL NOT NULL,
	cpus         INTEGER NOT NULL,
	mem_total    INTEGER NOT NULL,          -- bytes
	mem_avail    INTEGER NOT NULL,
	swap_total   INTEGER NOT NULL,
	swap_used    INTEGER NOT NULL,
	records      INTEGER NOT NULL,          -- call records since the session began
	agent_cpu_ns INTEGER NOT NULL,          -- CPU time of ingero since the session began
	agent_rss    INTEGER NOT NULL,          -- bytes
	PRIMARY KEY (session, time_ns)
) WITHOUT ROWID;

-- Notable calls: failed calls, and the slowest calls of each second. They outlive
-- the segments.
CREATE TABLE notable (
	session      INTEGER NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
	number       INTEGER NOT NULL,          -- number of the call in its session, from 0
	why          TEXT NOT NULL,             -- failed, slow
	start_ns     INTEGER NOT NULL,
	pid          INTEGER NOT NULL,
	tid          INTEGER NOT NULL,
	op           INTEGER NOT NULL,
	name         TEXT NOT NULL,             -- name of op
	result       INTEGER NOT NULL,
	duration_ns  INTEGER NOT NULL,
	oncpu_ns     INTEGER,                   -- NULL, like blocked_ns, if the two are not separable
	runnable_ns  INTEGER NOT NULL,
	throttled_ns INTEGER NOT NULL,
	blocked_ns   INTEGER,
	arg0         INTEGER NOT NULL,
	arg1         INTEGER NOT NULL,
	arg2         INTEGER NOT NULL,
	arg3         INTEGER NOT NULL,
	PRIMARY KEY (session, number)
) WITHOUT ROWID;
