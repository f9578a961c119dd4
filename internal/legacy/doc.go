// Package legacy reads databases of ingero 0.9 and converts them to current recordings. Its caller
// is the merge command.
//
// Such a database is one SQLite file. The package reads:
//
//	events            timestamp (Unix ns, when the call began), pid, tid, source, op (a code
//	                  of the source), duration (ns), arg0, arg1, ret_code; since 0.9 node,
//	                  and stack_hash, which names a row of stack_traces
//	sessions          started_at, stopped_at (Unix ns, 0 while it runs), node, kernel,
//	                  ingero_ver, pid_filter, cpu_cores, mem_total (MB); the events of a
//	                  session are those of its time
//	event_aggregates  of a minute (bucket, Unix ns), source, op and pid: count of events, of
//	                  these those that are stored, sum_dur, min_dur, max_dur (ns)
//	process_names     pid, name
//	system_snapshots  timestamp, cpu_pct, mem_avail and swap_mb (MB), load_avg
//	causal_chains     id, detected_at, severity, summary, root_cause, explanation,
//	                  recommendations, cuda_op, cuda_p99_us, cuda_p50_us, timeline (JSON:
//	                  layer, op, detail), node
//
// Data that a recording cannot hold is counted by name and reported, never silently dropped.
// Version 0.9 did not measure where a call's time went: the calls are marked accordingly
// ([events.CallNoLedger]). Calls are nested by their times.
package legacy
