-- Where the time of each process went, from the ledger: the parts add up to
-- elapsed_ns. One row per ten seconds, or per ten minutes for old data.
CREATE TABLE accounts (
	session         INTEGER NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
	seconds         INTEGER NOT NULL,     -- nominal length of the window: 10 or 600
	end_ns          INTEGER NOT NULL,     -- end of the window
	start_ns        INTEGER NOT NULL,
	pid             INTEGER NOT NULL,
	threads         INTEGER NOT NULL,     -- threads that made traced calls
	elapsed_ns      INTEGER NOT NULL,     -- sum over all threads, each from its first call
	gpu_wait_ns     INTEGER NOT NULL,     -- in calls that wait for the GPU, on a CPU or blocked
	call_cpu_ns     INTEGER NOT NULL,     -- on a CPU in other calls
	gap_cpu_ns      INTEGER NOT NULL,     -- on a CPU between calls
	runnable_ns     INTEGER NOT NULL,
	throttled_ns    INTEGER NOT NULL,
	blocked_ns      INTEGER NOT NULL,
	critical_ns     INTEGER NOT NULL,     -- off-CPU time after the GPU had finished
	critical_min_ns INTEGER NOT NULL,     -- bounds of critical_ns
	critical_max_ns INTEGER NOT NULL,
	steps           INTEGER NOT NULL,     -- number of steps; a step ends when a call that waits for the GPU returns
	lengths         BLOB,                 -- lengths of the steps; NULL: no steps
	detail          TEXT NOT NULL,        -- JSON: the same by thread and place, with culprits
	PRIMARY KEY (session, seconds, end_ns, pid)
) WITHOUT ROWID;
