-- Time that a CPU quota took: NULL where it was not told from runnable_ns.
ALTER TABLE ops ADD COLUMN throttled_ns INTEGER;
ALTER TABLE gaps ADD COLUMN throttled_ns INTEGER;

-- Time that was lost, by cause: of each chain, its last state.
CREATE TABLE chains (
	session     INTEGER NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
	id          TEXT NOT NULL,             -- of the cause: the same from tick to tick
	rule        TEXT NOT NULL,
	severity    TEXT NOT NULL,             -- LOW, MEDIUM, HIGH
	pid         INTEGER NOT NULL,          -- who lost
	tid         INTEGER NOT NULL,          -- its thread that lost most
	op          INTEGER NOT NULL,
	name        TEXT NOT NULL,             -- of op
	from_ns     INTEGER,                   -- first and last slow step
	to_ns       INTEGER,
	lost_ns     INTEGER NOT NULL,
	lost_min_ns INTEGER NOT NULL,          -- lost_ns lies between these
	lost_max_ns INTEGER NOT NULL,
	window_ns   INTEGER NOT NULL,          -- the time looked at
	excess_ns   INTEGER NOT NULL,          -- beyond the baseline in it, whatever the cause
	steps       INTEGER NOT NULL,
	slow        INTEGER NOT NULL,          -- of steps: made longer by the cause
	confidence  REAL,                      -- share of the excess that the cause explains
	baseline    TEXT NOT NULL,
	step_p50_ns INTEGER,
	step_p99_ns INTEGER,
	without_ns  INTEGER,                   -- what step_p99_ns would have been without the cause
	op_p50_ns   INTEGER,
	op_p99_ns   INTEGER,
	culprits    TEXT NOT NULL,             -- JSON: the largest share first
	timeline    TEXT NOT NULL,             -- JSON: in order of time
	not_it      TEXT NOT NULL,             -- JSON: causes that were looked for and not found
	PRIMARY KEY (session, id)
) WITHOUT ROWID;
