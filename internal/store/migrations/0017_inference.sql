-- Reads of inference servers' metrics: one row for each read, or for each try that failed. Unknown values
-- are NULL. Durations are histograms in JSON: count, sum (seconds), and buckets with over, up_to (seconds;
-- absent: no bound) and count.
CREATE TABLE inference (
	session          INTEGER NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
	time_ns          INTEGER NOT NULL,
	pid              INTEGER NOT NULL,     -- of the server process; 0: unknown
	url              TEXT NOT NULL,        -- of the metrics, in the server's network namespace
	since_ns         INTEGER,              -- time of the last read; NULL: none, so growth is unknown
	engine           TEXT NOT NULL,        -- name of the server, such as vLLM
	model            TEXT NOT NULL,
	why              TEXT NOT NULL,        -- why the metrics could not be read; empty: they were
	remedy           TEXT NOT NULL,        -- what to do about it
	running          REAL,                 -- requests that the server computes
	waiting          REAL,                 -- requests in its queue
	kv_cache         REAL,                 -- share of the KV cache in use, 0 to 1
	preemptions      REAL,                 -- requests that lost their KV cache, since the last read
	prompt_tokens    REAL,                 -- since the last read
	generated_tokens REAL,                 -- since the last read
	first_token      TEXT,                 -- times to the first token, since the last read
	between_tokens   TEXT,                 -- times between tokens, since the last read
	request          TEXT,                 -- times of whole requests, since the last read
	queue            TEXT,                 -- times in the queue, since the last read
	prefill          TEXT,                 -- times of prefills, since the last read
	decode           TEXT,                 -- times of decoding, since the last read
	PRIMARY KEY (session, time_ns, pid, url)
) WITHOUT ROWID;
