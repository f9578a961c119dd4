-- Latest state derived from the calls of each process. After exec, it is the state
-- of the later program. Devices are ordinals as numbered by the process.

-- Memory that a process holds, written after changes, at most once a second.
CREATE TABLE memory (
	session    INTEGER NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
	time_ns    INTEGER NOT NULL,
	pid        INTEGER NOT NULL,
	gpu_bytes  INTEGER NOT NULL,          -- allocated and not freed: device, managed, pool, physical, array
	host_bytes INTEGER NOT NULL,          -- pinned and registered
	allocs     INTEGER NOT NULL,          -- so far
	frees      INTEGER NOT NULL,          -- so far
	exact      INTEGER NOT NULL,          -- 0: the ledger may be inexact; see ledgers.inexact
	PRIMARY KEY (session, time_ns, pid)
) WITHOUT ROWID;

-- The account of each process's memory.
CREATE TABLE ledgers (
	session         INTEGER NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
	pid             INTEGER NOT NULL,
	inexact         TEXT NOT NULL,        -- why it may be inexact: attached-late, records-lost, entry-only, arguments-unread, table-full; '' if exact
	gpu_bytes       INTEGER NOT NULL,
	gpu_peak        INTEGER NOT NULL,
	gpu_count       INTEGER NOT NULL,     -- allocations
	host_bytes      INTEGER NOT NULL,
	host_peak       INTEGER NOT NULL,
	host_count      INTEGER NOT NULL,
	allocs          INTEGER NOT NULL,
	frees           INTEGER NOT NULL,
	released        INTEGER NOT NULL,     -- freed without a call: by a reset, or the end of a context or the process
	double_frees    INTEGER NOT NULL,     -- frees of addresses that were already free
	unknown_frees   INTEGER NOT NULL,     -- frees of addresses without a known allocation
	untracked       INTEGER NOT NULL,     -- allocations that did not fit into the table
	ooms            INTEGER NOT NULL,     -- allocations that failed because memory ran out
	oom_ns          INTEGER,              -- time of the last failed allocation
	oom_op          TEXT,
	oom_bytes       INTEGER,              -- requested bytes
	oom_device      INTEGER,
	oom_held        INTEGER,              -- bytes held on the GPU at that time
	oom_peak        INTEGER,              -- peak before that time
	oom_fragmented  INTEGER,              -- 1: the process had held as much before
	oom_holes       REAL,                 -- unused share of its address range, 0 to 1
	growth_bytes    REAL,                 -- growth per minute of the lowest levels of GPU memory: the median slope
	growth_low      REAL,                 -- bounds of growth_bytes, with 99 % confidence
	growth_high     REAL,
	growth_over_ns  INTEGER,              -- length of the analyzed time
	leak            INTEGER,              -- 1: memory grows significantly, by a notable share, until the end
	PRIMARY KEY (session, pid)
) WITHOUT ROWID;

-- Memory held, by kind of memory and device.
CREATE TABLE held (
	session INTEGER NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
	pid     INTEGER NOT NULL,
	kind    TEXT NOT NULL,                -- device, managed, pool, physical, array, pinned, registered
	device  INTEGER NOT NULL,             -- -1: none, or unknown
	bytes   INTEGER NOT NULL,
	peak    INTEGER NOT NULL,
	count   INTEGER NOT NULL,
	unsized INTEGER NOT NULL,             -- allocations of unknown size
	PRIMARY KEY (session, pid, kind, device)
) WITHOUT ROWID;

-- Mapping of device ordinals to GPUs, for each process.
CREATE TABLE devices (
	session INTEGER NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
	pid     INTEGER NOT NULL,
	device  INTEGER NOT NULL,
	uuid    TEXT NOT NULL,                -- UUID of the GPU or MIG instance, without the prefix GPU- or MIG-
	PRIMARY KEY (session, pid, device)
) WITHOUT ROWID;

CREATE TABLE streams (
	session     INTEGER NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
	number      INTEGER NOT NULL,         -- distinguishes objects that used the same handle
	pid         INTEGER NOT NULL,
	handle      INTEGER NOT NULL,         -- 0: the default stream
	device      INTEGER,
	launches    INTEGER NOT NULL,
	outstanding INTEGER NOT NULL,         -- launches not known to be complete
	copies      INTEGER NOT NULL,
	bytes       INTEGER NOT NULL,         -- bytes of copies
	captures    INTEGER NOT NULL,         -- captures begun
	last_ns     INTEGER,
	PRIMARY KEY (session, number)
) WITHOUT ROWID;

-- Life cycle of graphs: captured, instantiated, launched, updated, destroyed.
CREATE TABLE graphs (
	session            INTEGER NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
	number             INTEGER NOT NULL,  -- distinguishes graphs that used the same handles
	pid                INTEGER NOT NULL,
	exec               INTEGER,           -- handle of the executable graph
	graph              INTEGER,           -- handle of the graph that it was instantiated from
	device             INTEGER,
	captured_ns        INTEGER,           -- start of its capture
	capture_ns         INTEGER,           -- duration
	capture_tid        INTEGER,
	capture_stream     INTEGER,
	capture_mode       INTEGER,           -- 0 global, 1 thread-local, 2 relaxed
	capture_launches   INTEGER,           -- launches in the capture
	cold               INTEGER,           -- 1: the stream had no launches before
	capture_failed     INTEGER,
	instantiated_ns    INTEGER,
	instantiate_ns     INTEGER,           -- duration
	instantiate_fails  INTEGER NOT NULL,
	launches           INTEGER NOT NULL,
	last_launch_ns     INTEGER,
	updates            INTEGER NOT NULL,
	update_fails       INTEGER NOT NULL,
	uploads            INTEGER NOT NULL,
	destroyed_ns       INTEGER,
	PRIMARY KEY (session, number)
) WITHOUT ROWID;

-- NCCL communicators of each process. The ranks of a communicator share an id.
CREATE TABLE comms (
	session       INTEGER NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
	number        INTEGER NOT NULL,       -- distinguishes objects that used the same handle
	pid           INTEGER NOT NULL,
	handle        INTEGER NOT NULL,
	id            TEXT,                   -- first 64 bits of the unique id, in hexadecimal
	rank          INTEGER,
	ranks         INTEGER,                -- number of ranks
	device        INTEGER,
	state         TEXT NOT NULL,          -- active, finalized, destroyed, aborted
	began_ns      INTEGER,                -- NULL: before the probes were attached; sequence then counts from the attach
	init_ns       INTEGER,                -- duration
	sequence      INTEGER NOT NULL,       -- number of operations
	failed        INTEGER NOT NULL,       -- failed operations
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
	host      TEXT NOT NULL,              -- kind of host memory: pageable, pinned, unknown; '' if none
	count     INTEGER NOT NULL,
	bytes     INTEGER NOT NULL,
	call_ns   INTEGER NOT NULL,           -- time in the calls; for asynchronous calls without the copies
	estimated INTEGER NOT NULL,           -- 1: some copies have no records
	PRIMARY KEY (session, pid, direction, host)
) WITHOUT ROWID;

-- Failed calls, by operation and error.
CREATE TABLE errors (
	session  INTEGER NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
	pid      INTEGER NOT NULL,
	op       INTEGER NOT NULL,
	name     TEXT NOT NULL,               -- name of op
	code     INTEGER NOT NULL,
	error    TEXT NOT NULL,               -- name of the code
	count    INTEGER NOT NULL,
	first_ns INTEGER NOT NULL,
	last_ns  INTEGER NOT NULL,
	PRIMARY KEY (session, pid, op, code)
) WITHOUT ROWID;
