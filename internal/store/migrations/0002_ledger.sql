-- Time throttled by a CPU quota; NULL if it was not separated from runnable_ns.
ALTER TABLE ops ADD COLUMN throttled_ns INTEGER;
ALTER TABLE gaps ADD COLUMN throttled_ns INTEGER;

-- Causes of lost time: the latest state of each chain.
CREATE TABLE chains (
	session     INTEGER NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
	id          TEXT NOT NULL,             -- identity of the cause, the same at every tick
	rule        TEXT NOT NULL,
	severity    TEXT NOT NULL,             -- LOW, MEDIUM, HIGH
	pid         INTEGER NOT NULL,          -- process that lost time
	tid         INTEGER NOT NULL,          -- the thread of pid that lost most
	op          INTEGER NOT NULL,
	name        TEXT NOT NULL,             -- name of op
	from_ns     INTEGER,                   -- first and last slow step
	to_ns       INTEGER,
	lost_ns     INTEGER NOT NULL,
	lost_min_ns INTEGER NOT NULL,          -- bounds of lost_ns
	lost_max_ns INTEGER NOT NULL,
	window_ns   INTEGER NOT NULL,          -- length of the analyzed time
	excess_ns   INTEGER NOT NULL,          -- time beyond the baseline, from any cause
	steps       INTEGER NOT NULL,
	slow        INTEGER NOT NULL,          -- steps that the cause made longer
	confidence  REAL,                      -- share of the excess that the cause explains
	baseline    TEXT NOT NULL,
	step_p50_ns INTEGER,
	step_p99_ns INTEGER,
	without_ns  INTEGER,                   -- estimate of step_p99_ns without the cause
	op_p50_ns   INTEGER,
	op_p99_ns   INTEGER,
	culprits    TEXT NOT NULL,             -- JSON: largest share first
	timeline    TEXT NOT NULL,             -- JSON: in chronological order
	not_it      TEXT NOT NULL,             -- JSON: causes that were checked and ruled out
	PRIMARY KEY (session, id)
) WITHOUT ROWID;
