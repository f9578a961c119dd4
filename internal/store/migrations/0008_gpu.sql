-- Faults reported by the NVIDIA driver: XIDs of GPUs, SXids of NVSwitches.
CREATE TABLE xids (
	session   INTEGER NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
	burst     INTEGER NOT NULL,           -- number of a burst of consecutive faults of one device, from 1 in each session
	at        INTEGER NOT NULL,           -- position in the burst; 1 is the root
	time_ns   INTEGER NOT NULL,
	code      INTEGER NOT NULL,
	switch    INTEGER NOT NULL,           -- 1: an SXid, which has its own list of codes
	name      TEXT NOT NULL,              -- name of the code; '' if none is published
	severity  TEXT NOT NULL,              -- fatal, warning, info, or ''
	bus       TEXT NOT NULL,              -- PCI address without function
	msg       TEXT NOT NULL,
	via       TEXT NOT NULL,              -- tracepoint, kernel-log
	injected  INTEGER NOT NULL,           -- 1: a program wrote it to the kernel log, not the driver
	said_pid  INTEGER,                    -- process named in the message
	said_name TEXT NOT NULL,
	pid       INTEGER,                    -- PID of that process in the root PID namespace
	comm      TEXT NOT NULL,
	root      INTEGER NOT NULL,           -- code of the root
	after_ns  INTEGER NOT NULL,           -- time since the root
	last      TEXT NOT NULL,              -- JSON: the last calls of process pid before the fault, latest first
	PRIMARY KEY (session, burst, at)
) WITHOUT ROWID;

CREATE TABLE gpus (
	session   INTEGER NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
	bus       TEXT NOT NULL,              -- PCI address
	idx       INTEGER,                    -- index used by nvidia-smi
	uuid      TEXT NOT NULL,
	name      TEXT NOT NULL,
	mem_total INTEGER,                    -- bytes
	PRIMARY KEY (session, bus)
) WITHOUT ROWID;

-- State of the GPUs: every 10 s, and whenever a non-numeric value changes.
CREATE TABLE gpu_states (
	session         INTEGER NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
	time_ns         INTEGER NOT NULL,
	bus             TEXT NOT NULL,
	mig             INTEGER NOT NULL,     -- 1: divided into MIG instances
	lost            INTEGER NOT NULL,     -- 1: the GPU does not respond
	throttle        TEXT NOT NULL,        -- reasons for low clocks: comma-separated names
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
