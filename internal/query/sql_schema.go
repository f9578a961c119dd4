package query

import "slices"

// SQLSchema returns the virtual tables and table-valued functions, in the order of their
// documentation. The other tables are the file's: migrations of package store declare them.
func SQLSchema() []SQLTable {
	out := make([]SQLTable, len(virtuals))
	for i, v := range virtuals {
		out[i] = v.SQLTable
	}
	return out
}

// SQLFunctions returns ingero's own functions, and the names of the permitted SQLite functions.
func SQLFunctions() (own []SQLFunction, builtin []string) {
	names := map[string]bool{}
	for _, f := range sqlFunctions {
		own = append(own, f.SQLFunction)
		names[f.Name] = true
	}
	for name := range safeFunctions {
		if !names[name] {
			builtin = append(builtin, name)
		}
	}
	slices.Sort(builtin)
	return own, builtin
}

// SQLExample is a question and the statement that answers it.
type SQLExample struct{ Question, SQL string }

// SQLExamples are worked examples. Each has rows in a sufficiently long recording.
var SQLExamples = []SQLExample{
	{"Which operations take the most time, and how long do they take?",
		`SELECT op, count, ms(total_ns) AS total_ms, us(p50_ns) AS p50_us, us(p99_ns) AS p99_us
FROM op_stats(NULL, NULL, 'op') ORDER BY total_ns DESC LIMIT 10`},
	{"How many calls did each machine record, by layer?",
		`SELECT node, source, count(*) FROM events GROUP BY node, source`},
	{"Which process waits longest in synchronization?",
		`SELECT node, pid, count, ms(total_ns) AS total_ms, us(p99_ns) AS p99_us
FROM op_stats WHERE op = 'cudaStreamSync' ORDER BY total_ns DESC`},
	{"Where did the time of each operation go?",
		`SELECT op, ms(oncpu_ns) AS on_cpu, ms(runnable_ns) AS runnable, ms(throttled_ns) AS throttled, ms(blocked_ns) AS blocked
FROM op_stats(NULL, NULL, 'op') WHERE total_ns > 0 ORDER BY total_ns DESC`},
	{"How did the 99th percentile of synchronization change, minute by minute?",
		`SELECT iso(timestamp) AS minute, count, us(p99_ns) AS p99_us FROM timeline('1m', 'cudaStreamSync') ORDER BY timestamp`},
	{"Which kernels (GPU) were launched most often, and how long did the launch calls take?",
		`SELECT function, sum(weight) AS launches, us(percentile(duration_ns, 50)) AS p50_us, us(percentile(duration_ns, 99)) AS p99_us
FROM events WHERE function IS NOT NULL AND nested = 0 GROUP BY function ORDER BY launches DESC LIMIT 10`},
	{"Which lines of code spent the most time in calls?",
		`SELECT site, op, sum(stack_weight) AS calls, ms(sum(stack_weight * duration_ns)) AS ms
FROM events WHERE site IS NOT NULL AND nested = 0 GROUP BY site, op ORDER BY ms DESC LIMIT 10`},
	{"What were the 10 slowest calls?",
		`SELECT iso(timestamp) AS began, op, pid, us(duration_ns) AS us, us(runnable_ns) AS runnable_us, us(blocked_ns) AS blocked_us
FROM events WHERE nested = 0 ORDER BY duration_ns DESC LIMIT 10`},
	{"What is the 99.9th percentile of one operation since a given time?",
		`SELECT op, us(duration_ns) AS p999_us, count FROM quantile('cudaStreamSynchronize', 0.999, '2026-11-21T14:41:00Z')`},
	{"Which calls failed, and with which error?",
		`SELECT op, error, count(*) AS calls, min(iso(timestamp)) AS first FROM events WHERE failed = 1 GROUP BY op, error ORDER BY calls DESC`},
	{"How much memory does each process hold on the GPU, and is that exact?",
		`SELECT p.comm, l.pid, l.gpu_bytes, l.gpu_peak, l.allocs, l.frees, l.inexact
FROM ledgers l JOIN processes p ON p.session = l.session AND p.pid = l.pid ORDER BY l.gpu_bytes DESC`},
	{"How did the memory of each control group change, second by second?",
		`SELECT iso(m.time_ns) AS at, p.cgroup, sum(m.gpu_bytes) AS gpu_bytes
FROM memory m JOIN processes p ON p.session = m.session AND p.pid = m.pid GROUP BY m.time_ns, p.cgroup ORDER BY 1 LIMIT 20`},
	{"How many bytes were copied, in which direction, and with which kind of host memory?",
		`SELECT pid, direction, host, count, bytes FROM copies ORDER BY bytes DESC`},
	{"Which operations fail in more than 1 % of calls?",
		`SELECT op, count, errors, round(100.0 * errors / count, 1) AS percent FROM op_stats(NULL, NULL, 'op') WHERE errors * 100 > count`},
	{"How much memory did each process request?",
		`SELECT pid, comm, count(*) AS calls, sum(arg0) AS bytes FROM events WHERE op IN ('cudaMalloc', 'cuMemAlloc') GROUP BY pid, comm`},
	{"What happened in one second?",
		`SELECT iso(timestamp) AS began, pid, tid, op, us(duration_ns) AS us FROM events
WHERE timestamp >= ns('2026-11-21T14:41:01Z') AND timestamp < ns('2026-11-21T14:41:02Z') ORDER BY timestamp LIMIT 20`},
	{"Who took the CPU from the traced threads?",
		`SELECT who_comm, who_pid, count(*) AS times, ms(sum(taken_ns)) AS taken_ms
FROM waits WHERE state = 'runnable' AND who_tid IS NOT NULL GROUP BY who_comm, who_pid ORDER BY taken_ms DESC`},
	{"What did threads wait for inside calls?",
		`SELECT op, reason, count(*) AS times, ms(sum(duration_ns)) AS ms
FROM waits WHERE op IS NOT NULL AND state = 'blocked' GROUP BY op, reason ORDER BY ms DESC`},
	{"How much time do threads spend between calls?",
		`SELECT pid, tid, ms(sum(gap_ns)) AS gap_ms, ms(sum(gap_oncpu_ns)) AS on_cpu_ms, us(percentile(gap_ns, 99)) AS p99_us
FROM events WHERE nested = 0 GROUP BY pid, tid ORDER BY gap_ms DESC`},
	{"Which requests to servers waited longest for the first byte, and for what?",
		`SELECT iso(timestamp) AS arrived, peer, status, ms(first_ns) AS first_ms, ms(to_first_server_ns) AS server, ms(to_first_prompts_ns) AS prompts,
  ms(to_first_own_prompt_ns) AS own_prompt, ms(to_first_tokens_ns) AS tokens FROM requests WHERE post = 1 ORDER BY first_ns DESC LIMIT 10`},
	{"How did the times to the first byte and between events change, minute by minute?",
		`SELECT iso(timestamp - timestamp % 60000000000) AS minute, count(*), ms(percentile(first_ns, 99)) AS first_p99_ms, ms(percentile(between_ns, 50)) AS between_p50_ms
FROM requests WHERE post = 1 AND status < 400 GROUP BY 1 ORDER BY 1`},
	{"Which causes of lost time were found, most severe first?",
		`SELECT s.node, c.severity, c.rule, c.pid, c.name AS op, ms(c.lost_ns) AS lost_ms
FROM chains c JOIN sessions s ON s.id = c.session ORDER BY c.severity = 'HIGH' DESC, c.severity = 'MEDIUM' DESC, c.lost_ns DESC`},
	{"Which culprits do the chains name?",
		`SELECT c.rule, coalesce(j.value ->> 'comm', j.value ->> 'what') AS culprit, ms(sum(j.value ->> 'lost_ns')) AS lost_ms
FROM chains c, json_each(c.culprits) j GROUP BY 1, 2 ORDER BY lost_ms DESC`},
	{"Which control groups are noisy neighbours: who took time from the traced processes?",
		`SELECT j.value ->> 'cgroup' AS cgroup, count(DISTINCT c.pid) AS victims, ms(sum(j.value ->> 'lost_ns')) AS lost_ms
FROM chains c, json_each(c.culprits) j WHERE c.rule = 'cpu-taken' GROUP BY 1 ORDER BY lost_ms DESC`},
	{"Which container or pod makes the most calls?",
		`SELECT coalesce(p.namespace || '/' || p.pod, p.container, p.cgroup) AS place, p.pid, p.comm, sum(o.calls) AS calls
FROM processes p JOIN ops o ON o.session = p.session AND o.pid = p.pid GROUP BY p.session, p.pid ORDER BY calls DESC LIMIT 10`},
	{"How much GPU memory does each container hold, and how did it grow?",
		`SELECT coalesce(p.pod, p.container, p.cgroup) AS place, iso(m.time_ns) AS at, sum(m.gpu_bytes) AS bytes
FROM memory m JOIN processes p ON p.session = m.session AND p.pid = m.pid GROUP BY 1, m.session, m.time_ns ORDER BY 1, m.time_ns LIMIT 100`},
	{"Which recordings does the database have, and how long are they?",
		`SELECT uid, node, state, iso(started_ns) AS began, s(coalesce(ended_ns, updated_ns) - started_ns) AS seconds, records
FROM sessions ORDER BY started_ns DESC`},
	{"Which calls are notable, even after single calls were deleted?",
		`SELECT s.node, n.why, n.name AS op, n.pid, iso(n.start_ns) AS began, us(n.duration_ns) AS us
FROM notable n JOIN sessions s ON s.id = n.session ORDER BY n.duration_ns DESC LIMIT 10`},
	{"Did a recording drop records, and why?",
		`SELECT s.uid, d.reason, d.count FROM drops d JOIN sessions s ON s.id = d.session ORDER BY d.count DESC`},
	{"How do two machines compare?",
		`SELECT a.op, us(a.p50_ns) AS gpu_7_us, us(b.p50_ns) AS gpu_8_us FROM op_stats(NULL, NULL, 'node') a
JOIN op_stats(NULL, NULL, 'node') b ON b.op = a.op WHERE a.node = 'gpu-7' AND b.node = 'gpu-8' AND a.p50_ns IS NOT NULL`},
	{"Which calls took more than twice as long as the median of their operation?",
		`WITH usual AS MATERIALIZED (SELECT op, p50_ns FROM op_stats(NULL, NULL, 'op'))
SELECT e.id, e.op, us(e.duration_ns) AS us, us(u.p50_ns) AS usual_us FROM events e JOIN usual u ON u.op = e.op
WHERE e.duration_ns > 2 * u.p50_ns ORDER BY e.duration_ns DESC LIMIT 10`},
}
