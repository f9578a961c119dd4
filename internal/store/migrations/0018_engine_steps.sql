-- Steps of the threads that launch the GPU work of inference servers, summed up over 10 s by kind and graph. The
-- times from gpu_ns to unknown_ns add up to that of the steps, without the waits for work.
CREATE TABLE engine_steps (
	session     INTEGER NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
	from_ns     INTEGER NOT NULL,     -- the steps ended in this time
	to_ns       INTEGER NOT NULL,
	pid         INTEGER NOT NULL,     -- of the engine's process
	tid         INTEGER NOT NULL,
	kind        TEXT NOT NULL,        -- tokens, prompts, capture, or 'prompts or tokens': nothing tells them apart
	graph       INTEGER NOT NULL,     -- handle of the first graph that they launched; 0: none, unknown, or one of too many
	steps       INTEGER NOT NULL,
	served      INTEGER NOT NULL,     -- tokens of the requests that ended in this time, computed in such steps: over a longer time, served / steps is the mean number of requests in a step
	idle_ns     INTEGER NOT NULL,     -- the thread waited for work before the steps
	gpu_ns      INTEGER NOT NULL,     -- waited for the GPU
	cpu_ns      INTEGER NOT NULL,     -- on a CPU
	runnable_ns INTEGER NOT NULL,     -- waited for a CPU
	blocked_ns  INTEGER NOT NULL,     -- waited for something else
	unknown_ns  INTEGER NOT NULL,
	sketch      BLOB NOT NULL,        -- times of the steps, for quantiles
	PRIMARY KEY (session, to_ns, pid, tid, kind, graph)
) WITHOUT ROWID;
