-- Times are in Unix nanoseconds, durations in nanoseconds. NULL means unknown.

CREATE TABLE sessions (
	id             INTEGER PRIMARY KEY,
	uid            TEXT NOT NULL UNIQUE,   -- identity of the session; copies keep it
	node           TEXT NOT NULL,
	started_ns     INTEGER NOT NULL,
	updated_ns     INTEGER NOT NULL,       -- time of the last stored tick
	ended_ns       INTEGER,
	state          TEXT NOT NULL,          -- running, ended, full, failed, interrupted
	problem        TEXT NOT NULL,          -- reason for an abnormal end
	mono_offset_ns INTEGER NOT NULL,       -- Unix time minus CLOCK_MONOTONIC
	version        TEXT NOT NULL,          -- version of ingero
	kernel         TEXT NOT NULL,
	mode           TEXT NOT NULL,          -- trace, run, demo
	target         TEXT NOT NULL,
	agent_pid      INTEGER NOT NULL,
	agent_cpu_ns   INTEGER NOT NULL,
	records        INTEGER NOT NULL,       -- call records read from the kernel
	log            TEXT NOT NULL,          -- file of the calls in DATABASE.d; '' once it was pruned
	log_bytes      INTEGER NOT NULL,
	capped_ns      INTEGER                 -- from when on calls were not kept, for want of room
);

CREATE TABLE processes (
	session     INTEGER NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
	pid         INTEGER NOT NULL,          -- in the root PID namespace
	ppid        INTEGER NOT NULL,
	nspid       INTEGER NOT NULL,          -- in its own PID namespace
	uid         INTEGER NOT NULL,
	comm        TEXT NOT NULL,
	exe         TEXT NOT NULL,
	cgroup      TEXT NOT NULL,
	started_ns  INTEGER,
	ended_ns    INTEGER,
	mapped_ns   INTEGER,                   -- when it mapped its first traced library
	attached_ns INTEGER,                   -- when its probes were attached; earlier calls are missing
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

-- Counts come from the kernel and are exact. Quantiles come from the records, or if
-- thinned is 1, from the kernel's histogram (within 6.25 %).
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
	inner_ns    INTEGER NOT NULL,          -- part of total_ns: in calls that these calls made
	partial     INTEGER NOT NULL,
	partial_ns  INTEGER NOT NULL,          -- part of total_ns: on a CPU or blocked, unknown which
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

-- Time of the threads of a process between their outermost calls, from the
-- records: an estimate if records were sampled.
CREATE TABLE gaps (
	session     INTEGER NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
	pid         INTEGER NOT NULL,
	calls       INTEGER NOT NULL,          -- outermost calls
	count       INTEGER NOT NULL,          -- gaps
	total_ns    INTEGER NOT NULL,
	oncpu_ns    INTEGER NOT NULL,
	runnable_ns INTEGER NOT NULL,
	blocked_ns  INTEGER NOT NULL,
	partial_ns  INTEGER NOT NULL,          -- on a CPU or blocked, unknown which
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
