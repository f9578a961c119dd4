-- Faults that the NVIDIA driver reported: Xids of GPUs, SXids of NVSwitches.
CREATE TABLE xids (
	session   INTEGER NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
	burst     INTEGER NOT NULL,           -- faults of one device that follow from each other: in the session, from 1
	at        INTEGER NOT NULL,           -- place in the burst, from 1: its root
	time_ns   INTEGER NOT NULL,
	code      INTEGER NOT NULL,
	switch    INTEGER NOT NULL,           -- 1: an SXid, whose codes are a list of their own
	name      TEXT NOT NULL,              -- of the code; '' where none is published
	severity  TEXT NOT NULL,              -- fatal, warning, info, or ''
	bus       TEXT NOT NULL,              -- PCI address without function
	msg       TEXT NOT NULL,
	via       TEXT NOT NULL,              -- tracepoint, kernel-log
	injected  INTEGER NOT NULL,           -- 1: a program wrote it to the kernel's log, not the driver
	said_pid  INTEGER,                    -- the process as the message names it
	said_name TEXT NOT NULL,
	pid       INTEGER,                    -- that process in the root PID namespace
	comm      TEXT NOT NULL,
	root      INTEGER NOT NULL,           -- code of the root
	after_ns  INTEGER NOT NULL,           -- after the root
	last      TEXT NOT NULL,              -- JSON: the last calls of process pid before it, the latest first
	PRIMARY KEY (session, burst, at)
) WITHOUT ROWID;

CREATE TABLE gpus (
	session   INTEGER NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
	bus       TEXT NOT NULL,              -- PCI address
	idx       INTEGER,                    -- as nvidia-smi numbers it
	uuid      TEXT NOT NULL,
	name      TEXT NOT NULL,
	mem_total INTEGER,                    -- bytes
	PRIMARY KEY (session, bus)
) WITHOUT ROWID;

-- How the GPUs were: every 10 s, and when something but a figure has changed.
CREATE TABLE gpu_states (
	session         INTEGER NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
	time_ns         INTEGER NOT NULL,
	bus             TEXT NOT NULL,
	mig             INTEGER NOT NULL,     -- 1: divided into instances
	lost            INTEGER NOT NULL,     -- 1: it does not answer
	throttle        TEXT NOT NULL,        -- why its clocks are low: names with commas between
	mem_used        INTEGER,              -- bytes
	busy            REAL,                 -- share of the time, 0 to 1
	mem_busy        REAL,
	clock_sm        INTEGER,              -- Hz
	clock_mem       INTEGER,
	clock_sm_max    INTEGER,
	temperature     REAL,                 -- degrees Celsius
	power           REAL,                 -- W
	power_limit     REAL,
	ecc_corrected   INTEGER,              -- since the driver was loaded
	ecc_uncorrected INTEGER,
	PRIMARY KEY (session, time_ns, bus)
) WITHOUT ROWID;
