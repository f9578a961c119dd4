-- Where the time of each process went, by the time ledger: the parts add up to
-- elapsed_ns. Every ten seconds, and every ten minutes for what is old.
CREATE TABLE accounts (
	session         INTEGER NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
	seconds         INTEGER NOT NULL,     -- about how long it is of: 10 or 600
	end_ns          INTEGER NOT NULL,     -- of the time that it is of
	start_ns        INTEGER NOT NULL,
	pid             INTEGER NOT NULL,
	threads         INTEGER NOT NULL,     -- that made traced calls
	elapsed_ns      INTEGER NOT NULL,     -- of all threads, from each one's first call on
	gpu_wait_ns     INTEGER NOT NULL,     -- in calls that wait for the GPU, on a CPU or blocked
	call_cpu_ns     INTEGER NOT NULL,     -- on a CPU in other calls
	gap_cpu_ns      INTEGER NOT NULL,     -- on a CPU between calls
	runnable_ns     INTEGER NOT NULL,
	throttled_ns    INTEGER NOT NULL,
	blocked_ns      INTEGER NOT NULL,
	critical_ns     INTEGER NOT NULL,     -- of the time not on a CPU: when the GPU was done
	critical_min_ns INTEGER NOT NULL,     -- critical_ns lies between these
	critical_max_ns INTEGER NOT NULL,
	steps           INTEGER NOT NULL,     -- from one return of a call that waits for the GPU to the next
	lengths         BLOB,                 -- of the steps; NULL: there were none
	detail          TEXT NOT NULL,        -- JSON: the same by thread and place, with who and what took it
	PRIMARY KEY (session, seconds, end_ns, pid)
) WITHOUT ROWID;
