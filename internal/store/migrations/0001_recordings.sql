-- Times are Unix nanoseconds, durations nanoseconds. What is not known is NULL.

CREATE TABLE sessions (
	id             INTEGER PRIMARY KEY,
	uid            TEXT NOT NULL UNIQUE,   -- the same on every machine it is copied to
	node           TEXT NOT NULL,
	started_ns     INTEGER NOT NULL,
	updated_ns     INTEGER NOT NULL,       -- of the last tick that is in here
	ended_ns       INTEGER,
	state          TEXT NOT NULL,          -- running, ended, full, failed, interrupted
	problem        TEXT NOT NULL,          -- why it did not end as it should
	mono_offset_ns INTEGER NOT NULL,       -- Unix time less CLOCK_MONOTONIC
	version        TEXT NOT NULL,          -- of ingero
	kernel         TEXT NOT NULL,
	mode           TEXT NOT NULL,          -- trace, run, demo
	target         TEXT NOT NULL,
	agent_pid      INTEGER NOT NULL,
	agent_cpu_ns   INTEGER NOT NULL,
	records        INTEGER NOT NULL,       -- of calls, read from the kernel
	log            TEXT NOT NULL,          -- file of the calls in DATABASE.d; '' once it was pruned
	log_bytes      INTEGER NOT NULL,
	capped_ns      INTEGER                 -- from when on calls were not kept, for want of room
);

CREATE TABLE processes (
	session     INTEGER NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
	pid         INTEGER NOT NULL,          -- in the root PID namespace
	ppid        INTEGER NOT NULL,
	nspid       INTEGER NOT NULL,          -- in its own
	uid         INTEGER NOT NULL,
	comm        TEXT NOT NULL,
	exe         TEXT NOT NULL,
	cgroup      TEXT NOT NULL,
	started_ns  INTEGER,
	ended_ns    INTEGER,
	mapped_ns   INTEGER,                   -- first traced library
	attached_ns INTEGER,                   -- its probes; calls in between were not seen
	PRIMARY KEY (session, pid)
) WITHOUT ROWID;

CREATE TABLE libraries (
	session  INTEGER NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
	path     TEXT NOT NULL,
	build_id TEXT NOT NULL,
	library  TEXT NOT NULL,
	number   INTEGER NOT NULL,
	probes   INTEGER NOT NULL,
	PRIMARY KEY (session, path, build_id)
) WITHOUT ROWID;

-- Counts are the kernel's and exact. The quantiles are of the records, or where
-- thinned is 1 of the kernel's histogram (6.25 %).
CREATE TABLE ops (
	session     INTEGER NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
	pid         INTEGER NOT NULL,
	op          INTEGER NOT NULL,
	name        TEXT NOT NULL,
	source      TEXT NOT NULL,
	calls       INTEGER NOT NULL,          -- entries
	done        INTEGER NOT NULL,          -- returns
	errors      INTEGER NOT NULL,
	nested      INTEGER NOT NULL,
	unmeasured  INTEGER NOT NULL,
	abandoned   INTEGER NOT NULL,
	total_ns    INTEGER NOT NULL,
	oncpu_ns    INTEGER NOT NULL,
	runnable_ns INTEGER NOT NULL,
	blocked_ns  INTEGER NOT NULL,
	inner_ns    INTEGER NOT NULL,          -- of total_ns: in calls that these calls made
	partial     INTEGER NOT NULL,
	partial_ns  INTEGER NOT NULL,          -- of total_ns: on a CPU or blocked, it is not known which
	p50_ns      INTEGER,
	p90_ns      INTEGER,
	p95_ns      INTEGER,
	p99_ns      INTEGER,
	max_ns      INTEGER,
	thinned     INTEGER NOT NULL,
	sketch      BLOB NOT NULL,
	hist        BLOB NOT NULL,
	PRIMARY KEY (session, pid, op)
) WITHOUT ROWID;

-- What the threads of a process did between their outermost calls, from the
-- records: where some were thinned it is an estimate.
CREATE TABLE gaps (
	session     INTEGER NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
	pid         INTEGER NOT NULL,
	calls       INTEGER NOT NULL,          -- outermost calls
	count       INTEGER NOT NULL,          -- gaps
	total_ns    INTEGER NOT NULL,
	oncpu_ns    INTEGER NOT NULL,
	runnable_ns INTEGER NOT NULL,
	blocked_ns  INTEGER NOT NULL,
	partial_ns  INTEGER NOT NULL,          -- on a CPU or blocked, it is not known which
	PRIMARY KEY (session, pid)
) WITHOUT ROWID;

CREATE TABLE drops (
	session INTEGER NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
	reason  TEXT NOT NULL,
	count   INTEGER NOT NULL,
	PRIMARY KEY (session, reason)
) WITHOUT ROWID;

CREATE TABLE reports (
	session INTEGER NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
	kind    TEXT NOT NULL,
	object  TEXT NOT NULL,
	why     TEXT NOT NULL,
	PRIMARY KEY (session, kind, object, why)
) WITHOUT ROWID;
