-- What follows from the calls of each process, in its last state; where a process
-- began another program, of the later one. Devices are ordinals as the process counts.

-- Memory that a process holds, when it had changed: once a second at most.
CREATE TABLE memory (
	session    INTEGER NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
	time_ns    INTEGER NOT NULL,
	pid        INTEGER NOT NULL,
	gpu_bytes  INTEGER NOT NULL,          -- allocated and not freed: device, managed, pool, physical, array
	host_bytes INTEGER NOT NULL,          -- pinned and registered
	allocs     INTEGER NOT NULL,          -- so far
	frees      INTEGER NOT NULL,          -- so far
	exact      INTEGER NOT NULL,          -- 0: the ledger may be off; ledgers says why
	PRIMARY KEY (session, time_ns, pid)
) WITHOUT ROWID;

-- The account of each process's memory.
CREATE TABLE ledgers (
	session         INTEGER NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
	pid             INTEGER NOT NULL,
	inexact         TEXT NOT NULL,        -- why it may be off: attached-late, records-lost, entry-only, arguments-unread, table-full; '' where it is exact
	gpu_bytes       INTEGER NOT NULL,
	gpu_peak        INTEGER NOT NULL,
	gpu_count       INTEGER NOT NULL,     -- allocations
	host_bytes      INTEGER NOT NULL,
	host_peak       INTEGER NOT NULL,
	host_count      INTEGER NOT NULL,
	allocs          INTEGER NOT NULL,
	frees           INTEGER NOT NULL,
	released        INTEGER NOT NULL,     -- freed by no call of their own: a reset, the end of a context or the process
	double_frees    INTEGER NOT NULL,     -- of what had been freed and not given again
	unknown_frees   INTEGER NOT NULL,     -- of what is not known to have been allocated
	untracked       INTEGER NOT NULL,     -- allocations that there was no room for
	ooms            INTEGER NOT NULL,     -- allocations that failed for want of memory
	oom_ns          INTEGER,              -- the last of them
	oom_op          TEXT,
	oom_bytes       INTEGER,              -- asked for
	oom_device      INTEGER,
	oom_held        INTEGER,              -- bytes held on the GPU then
	oom_peak        INTEGER,              -- the most that had been held before
	oom_fragmented  INTEGER,              -- 1: as much as this had been held before
	oom_holes       REAL,                 -- share of the span of its addresses that was not held, 0 to 1
	growth_bytes    REAL,                 -- by which the lowest levels of GPU memory grow in a minute: the median slope
	growth_low      REAL,                 -- it lies between these with 99 % confidence
	growth_high     REAL,
	growth_over_ns  INTEGER,              -- the time that was looked at
	leak            INTEGER,              -- 1: it surely grows, by a notable part, and to the end
	PRIMARY KEY (session, pid)
) WITHOUT ROWID;

-- What is held, by kind of memory and device.
CREATE TABLE held (
	session INTEGER NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
	pid     INTEGER NOT NULL,
	kind    TEXT NOT NULL,                -- device, managed, pool, physical, array, pinned, registered
	device  INTEGER NOT NULL,             -- -1: none, or not known
	bytes   INTEGER NOT NULL,
	peak    INTEGER NOT NULL,
	count   INTEGER NOT NULL,
	unsized INTEGER NOT NULL,             -- of count: of a size that is not known
	PRIMARY KEY (session, pid, kind, device)
) WITHOUT ROWID;

-- Which GPU a process means by an ordinal.
CREATE TABLE devices (
	session INTEGER NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
	pid     INTEGER NOT NULL,
	device  INTEGER NOT NULL,
	uuid    TEXT NOT NULL,                -- of the GPU, or of its part (MIG), without GPU- or MIG- before it
	PRIMARY KEY (session, pid, device)
) WITHOUT ROWID;

CREATE TABLE streams (
	session     INTEGER NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
	number      INTEGER NOT NULL,         -- tells it from others that have, or had, its handle
	pid         INTEGER NOT NULL,
	handle      INTEGER NOT NULL,         -- 0: the default stream
	device      INTEGER,
	launches    INTEGER NOT NULL,
	outstanding INTEGER NOT NULL,         -- launches that are not known to be done
	copies      INTEGER NOT NULL,
	bytes       INTEGER NOT NULL,         -- of copies
	captures    INTEGER NOT NULL,         -- begun
	last_ns     INTEGER,
	PRIMARY KEY (session, number)
) WITHOUT ROWID;

-- The life of graphs: captured, made executable, launched, updated, destroyed.
CREATE TABLE graphs (
	session            INTEGER NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
	number             INTEGER NOT NULL,  -- tells it from others that have, or had, its handles
	pid                INTEGER NOT NULL,
	exec               INTEGER,           -- handle of the executable graph
	graph              INTEGER,           -- handle of the graph that it was made of
	device             INTEGER,
	captured_ns        INTEGER,           -- when its capture began
	capture_ns         INTEGER,           -- how long that took
	capture_tid        INTEGER,
	capture_stream     INTEGER,
	capture_mode       INTEGER,           -- 0 global, 1 of the thread, 2 relaxed
	capture_launches   INTEGER,           -- launches in it
	cold               INTEGER,           -- 1: nothing had been launched in that stream before
	capture_failed     INTEGER,
	instantiated_ns    INTEGER,
	instantiate_ns     INTEGER,           -- how long that took
	instantiate_fails  INTEGER NOT NULL,
	launches           INTEGER NOT NULL,
	last_launch_ns     INTEGER,
	updates            INTEGER NOT NULL,
	update_fails       INTEGER NOT NULL,
	uploads            INTEGER NOT NULL,
	destroyed_ns       INTEGER,
	PRIMARY KEY (session, number)
) WITHOUT ROWID;

-- NCCL communicators, as each process has them. The ranks of one have the same id.
CREATE TABLE comms (
	session       INTEGER NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
	number        INTEGER NOT NULL,       -- tells it from others that have, or had, its handle
	pid           INTEGER NOT NULL,
	handle        INTEGER NOT NULL,
	id            TEXT,                   -- first 64 bits of the unique id, in hexadecimal
	rank          INTEGER,
	ranks         INTEGER,                -- how many there are
	device        INTEGER,
	state         TEXT NOT NULL,          -- active, finalized, destroyed, aborted
	began_ns      INTEGER,                -- NULL: before the attach, and sequence counts from there
	init_ns       INTEGER,                -- how long that took
	sequence      INTEGER NOT NULL,       -- operations so far
	failed        INTEGER NOT NULL,       -- of them
	last_op       TEXT,
	last_ns       INTEGER,
	last_elements INTEGER,
	last_type     INTEGER,                -- ncclDataType_t
	last_bytes    INTEGER,
	ended_ns      INTEGER,
	PRIMARY KEY (session, number)
) WITHOUT ROWID;

CREATE TABLE copies (
	session   INTEGER NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
	pid       INTEGER NOT NULL,
	direction TEXT NOT NULL,              -- HtoD, DtoH, DtoD, HtoH, peer, unknown
	host      TEXT NOT NULL,              -- the host's side: pageable, pinned, unknown; '' where there is none
	count     INTEGER NOT NULL,
	bytes     INTEGER NOT NULL,
	call_ns   INTEGER NOT NULL,           -- that the calls took; of asynchronous ones not the copies
	estimated INTEGER NOT NULL,           -- 1: some have no records of their own
	PRIMARY KEY (session, pid, direction, host)
) WITHOUT ROWID;

-- Calls that failed, by operation and error.
CREATE TABLE errors (
	session  INTEGER NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
	pid      INTEGER NOT NULL,
	op       INTEGER NOT NULL,
	name     TEXT NOT NULL,               -- of op
	code     INTEGER NOT NULL,
	error    TEXT NOT NULL,               -- name of the code
	count    INTEGER NOT NULL,
	first_ns INTEGER NOT NULL,
	last_ns  INTEGER NOT NULL,
	PRIMARY KEY (session, pid, op, code)
) WITHOUT ROWID;
