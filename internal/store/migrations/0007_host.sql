-- Host events beside the traced calls, summed every ten seconds: of traced
-- processes, and of other processes that use a resource that a traced process waits
-- for. Counts are exact. Without events there is no row.
CREATE TABLE host_sums (
	session   INTEGER NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
	time_ns   INTEGER NOT NULL,            -- end of the window
	window_ns INTEGER NOT NULL,            -- length of the window
	kind      TEXT NOT NULL,               -- disk-read, reclaim, tcp-retransmit, ...
	pid       INTEGER NOT NULL,            -- 0: no single process, or not separated by process
	sender    INTEGER NOT NULL,            -- sender of a signal; 0: the kernel. lock-refused: holder of the lock; 0: unknown
	object    TEXT NOT NULL,               -- device, peer, cgroup, signal, order, name of a file or GPU; '': none, unknown, or, of unix-*, the clients of the process. A UNIX socket: at most the last 31 bytes of its path
	comm      TEXT NOT NULL,               -- name of pid; for a signal, of its sender
	count     INTEGER,                     -- NULL: the kind has only a time
	failed    INTEGER NOT NULL,            -- failed events
	bytes     INTEGER,                     -- NULL: the kind has no bytes
	total_ns  INTEGER,                     -- NULL: the kind has no time
	p50_ns    INTEGER,                     -- quantiles of single times, within a factor of 1.5
	p99_ns    INTEGER,
	PRIMARY KEY (session, time_ns, kind, pid, sender, object)
) WITHOUT ROWID;
