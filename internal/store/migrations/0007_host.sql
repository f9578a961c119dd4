-- What happened on the host beside the traced calls, every ten seconds: of traced
-- processes, and of others that used what those wait for. Counts are exact; where
-- nothing happened there is no row.
CREATE TABLE host_sums (
	session   INTEGER NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
	time_ns   INTEGER NOT NULL,            -- end of the time that it is summed up over
	window_ns INTEGER NOT NULL,            -- length of that time
	kind      TEXT NOT NULL,               -- disk-read, reclaim, tcp-retransmit, ...
	pid       INTEGER NOT NULL,            -- 0: of nobody in particular, or not told apart
	sender    INTEGER NOT NULL,            -- of a signal; 0: the kernel
	object    TEXT NOT NULL,               -- device, peer, cgroup, signal or order; '': none, or not known
	comm      TEXT NOT NULL,               -- of pid; of a signal's sender
	count     INTEGER,                     -- NULL: the kind has a time alone
	failed    INTEGER NOT NULL,            -- of count
	bytes     INTEGER,                     -- NULL: the kind has none
	total_ns  INTEGER,                     -- NULL: the kind has no time
	p50_ns    INTEGER,                     -- of the single times, within a factor of 1.5
	p99_ns    INTEGER,
	PRIMARY KEY (session, time_ns, kind, pid, sender, object)
) WITHOUT ROWID;
