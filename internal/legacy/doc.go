// Package legacy reads databases of ingero 0.9 and writes what they hold as
// recordings of today. Its caller is the merge command.
//
// Such a database is one SQLite file. What is read of it:
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
// What has no place in a recording is counted by name and told, never left out in
// silence. Where a call's time went was not measured by 0.9: the calls say so
// ([events.CallNoLedger]). Which call was made inside which is found by their times.
package legacy
