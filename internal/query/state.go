package query

import (
	"context"
	"database/sql"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"ingero/internal/tick"
	"ingero/pkg/events"
)

// StateView is a view of state that calls imply (memory, graphs and so on), in each process's last
// state or what a window used of it; or of what GPUs report.
type StateView struct {
	Name, About string
	columns     string // SQL of the file's table, without the session
	table       string // "": the virtual table requests, by the names of its columns
	order       string
	// condition on the window's from (?1) and to (?2); "" if the table has no times
	in      string
	machine bool // the filter's processes do not apply
}

// StateViews are all views, in the order of their documentation.
var StateViews = []StateView{
	{"memory", "GPU and pinned memory of each process, and its memory errors",
		"pid, gpu_bytes, gpu_peak, gpu_count, host_bytes, allocs, frees, double_frees, unknown_frees, ooms, oom_bytes, oom_fragmented, growth_low, growth_high, leak, inexact",
		"ledgers", "gpu_bytes DESC, pid", "", false},
	{"usage", "memory of each process, per second",
		"%iso(time_ns) AS at, pid, gpu_bytes, host_bytes, allocs, frees, exact", "memory", "time_ns, pid", "time_ns >= ? AND time_ns < ?", false},
	{"held", "memory of each process, by kind and device",
		"pid, kind, nullif(device, -1) AS device, bytes, peak, count, unsized", "held", "bytes DESC, pid, kind, device", "", false},
	{"devices", "mapping of device ordinals to GPUs, for each process", "pid, device, uuid", "devices", "pid, device", "", false},
	{"streams", "launches and copies of each stream",
		"pid, printf('0x%x', handle) AS stream, device, launches, outstanding, copies, bytes, captures, %iso(last_ns) AS last", "streams", "launches DESC, number", "last_ns >= ? AND last_ns < ?", false},
	{"graphs", "captures, instantiations and launches of CUDA graphs",
		"pid, printf('0x%x', exec) AS exec, device, %iso(captured_ns) AS captured, capture_ns, capture_launches, cold, instantiate_ns, launches, %iso(last_launch_ns) AS last_launch, updates, update_fails, uploads, %iso(destroyed_ns) AS destroyed",
		"graphs", "launches DESC, number",
		"coalesce(last_launch_ns, instantiated_ns, captured_ns) >= ? AND coalesce(captured_ns, instantiated_ns, last_launch_ns) < ?", false},
	{"comms", "NCCL communicators and their last operation; ranks of one communicator share an ID",
		"id, rank, ranks, pid, device, state, sequence, failed, last_op, last_elements, last_bytes, %iso(last_ns) AS last", "comms", "id, rank, number",
		"coalesce(last_ns, began_ns, 0) >= ? AND coalesce(began_ns, last_ns, 0) < ?", false},
	{"copies", "bytes copied, by direction and kind of host memory",
		"pid, direction, host, count, bytes, call_ns, estimated", "copies", "bytes DESC, pid", "", false},
	{"errors", "failed calls and their errors",
		"pid, name AS op, error, count, %iso(first_ns) AS first, %iso(last_ns) AS last", "errors", "count DESC, pid, op", "last_ns >= ? AND first_ns < ?", false},
	{"xids", "GPU faults, the root of each burst, and the affected processes",
		"%iso(time_ns) AS time, bus, gpu_instance, code, name, severity, burst, root, after_ns, pid, comm, via, msg", "xids", "time_ns, burst, at", "time_ns >= ? AND time_ns < ?", false},
	{"gpus", "state of the GPUs",
		"%iso(time_ns) AS time, bus, busy, mem_used, clock_sm, temperature, power, throttle, ecc_uncorrected, mig, lost", "gpu_states", "time_ns, bus", "time_ns >= ? AND time_ns < ?", true},
	{"inference", "requests, KV cache, tokens and mean durations in seconds, as inference servers report them",
		"%iso(time_ns) AS time, pid, engine, model, running, waiting, kv_cache, preemptions, prompt_tokens, generated_tokens, " +
			meanOf("first_token") + meanOf("between_tokens") + meanOf("request") + "why", "inference", "time_ns, pid, url", "time_ns >= ? AND time_ns < ?", false},
	{"engines", "steps of the threads that launch inference servers' GPU work, each 10 s: mean time, and its parts",
		"%iso(from_ns) AS time, pid, tid, kind, iif(graph = 0, NULL, printf('0x%x', graph)) AS graph, steps, 1.0 * nullif(served, 0) / nullif(steps, 0) AS mean_requests, " +
			"(gpu_ns + cpu_ns + runnable_ns + blocked_ns + unknown_ns) / nullif(steps, 0) AS mean_ns, idle_ns, gpu_ns, cpu_ns, runnable_ns, blocked_ns, unknown_ns",
		"engine_steps", "from_ns, pid, tid, kind, graph", "to_ns > ? AND from_ns < ?", false},
	{"requests", "HTTP requests to servers and what they waited for; the latest 10,000 of each recording",
		"time, pid, port, peer, status, events, read_ns, first_ns, between_ns, last_ns, to_first_server_ns, to_first_prompts_ns, to_first_own_prompt_ns, to_first_tokens_ns, to_first_deliver_ns, ended",
		"", "", "", false},
}

// meanOf returns the column with the mean of a kind of durations, and a comma.
func meanOf(durations string) string {
	return "1.0 * (" + durations + " ->> '$.sum') / (" + durations + " ->> '$.count') AS " + durations + "_mean, "
}

// isoCall matches a time of a view, as text in UTC.
var isoCall = regexp.MustCompile(`%iso\((\w+)\)`)

// sql returns the columns for SQLite.
func (v *StateView) sql() string {
	return isoCall.ReplaceAllString(v.columns, "strftime('%Y-%m-%dT%H:%M:%fZ', $1 / 1e9, 'unixepoch')")
}

// StateViewNamed returns a view by name.
func StateViewNamed(name string) (StateView, bool) {
	i := slices.IndexFunc(StateViews, func(v StateView) bool { return v.Name == name })
	if i < 0 {
		return StateView{}, false
	}
	return StateViews[i], true
}

// State returns a view's rows for the filter's processes, sessions and window. It ignores the
// filter's operations.
func (r *Reader) State(ctx context.Context, f Filter, v StateView) (*SQLResult, error) {
	out := &SQLResult{}
	err := r.eachSession(ctx, f, func(s *Session, from, to int64) error {
		if v.table == "" {
			return r.requestRows(ctx, s, f, &v, out)
		}
		where, args := "session = ?", []any{s.id}
		if v.in != "" {
			where, args = where+" AND "+v.in, append(args, from, to)
		}
		if len(f.PIDs) > 0 && !v.machine {
			marks := make([]string, len(f.PIDs))
			for i, pid := range f.PIDs {
				marks[i] = "?"
				args = append(args, pid)
			}
			where += " AND pid IN (" + strings.Join(marks, ", ") + ")"
		}
		return r.rows(ctx, func(rows *sql.Rows) error {
			row, err := scanRow(rows, out)
			out.Rows = append(out.Rows, row)
			return err
		}, fmt.Sprintf("SELECT %s FROM %s WHERE %s ORDER BY %s", v.sql(), v.table, where, v.order), args...)
	})
	if out.Columns == nil {
		out.Columns = v.names()
	}
	return out, err
}

// names returns the names of the view's columns.
func (v *StateView) names() (out []string) {
	depth, from := 0, 0
	for i, c := range v.columns + "," {
		switch {
		case c == '(':
			depth++
		case c == ')':
			depth--
		case c == ',' && depth == 0:
			words := strings.Fields(v.columns[from:i])
			out, from = append(out, words[len(words)-1]), i+1
		}
	}
	return out
}

func scanRow(rows *sql.Rows, out *SQLResult) ([]any, error) {
	if out.Columns == nil {
		names, err := rows.Columns()
		if err != nil {
			return nil, err
		}
		out.Columns = names
	}
	row := make([]any, len(out.Columns))
	into := make([]any, len(row))
	for i := range row {
		into[i] = &row[i]
	}
	return row, rows.Scan(into...)
}

// Memory returns the memory of the filter's processes in its last state. It ignores the filter's
// window and operations.
func (r *Reader) Memory(ctx context.Context, f Filter) (map[uint32]tick.Memory, error) {
	out := map[uint32]tick.Memory{}
	err := r.eachSession(ctx, f, func(s *Session, _, _ int64) error {
		return r.rows(ctx, func(rows *sql.Rows) error {
			pid, m, err := scanMemory(rows)
			if f.wants(pid) {
				out[pid] = m
			}
			return err
		}, `SELECT pid, inexact, gpu_bytes, gpu_peak, gpu_count, host_bytes, host_peak, host_count, allocs, frees, released, double_frees,
			unknown_frees, untracked, ooms, oom_ns, coalesce(oom_op, ''), oom_bytes, coalesce(oom_device, -1), oom_held, oom_peak, oom_fragmented,
			coalesce(oom_holes, -1), growth_bytes, growth_low, growth_high, growth_over_ns, leak FROM ledgers WHERE session = ?`, s.id)
	})
	return out, err
}

func scanMemory(rows *sql.Rows) (pid uint32, m tick.Memory, err error) {
	var inexact, op string
	var oom [4]sql.NullInt64 // time, bytes requested, held, peak
	var device int16
	var fragmented, leak sql.NullBool
	var growth [3]sql.NullFloat64
	var over sql.NullInt64
	holes := 0.0
	err = rows.Scan(&pid, &inexact, &m.GPU.Bytes, &m.GPU.Peak, &m.GPU.Count, &m.Host.Bytes, &m.Host.Peak, &m.Host.Count, &m.Allocs, &m.Frees, &m.Released,
		&m.DoubleFrees, &m.UnknownFrees, &m.Untracked, &m.OOMs, &oom[0], &op, &oom[1], &device, &oom[2], &oom[3], &fragmented,
		&holes, &growth[0], &growth[1], &growth[2], &over, &leak)
	m.Used, m.Inexact = true, tick.InexactOf(strings.Fields(inexact))
	if oom[0].Valid {
		m.LastOOM = tick.OOM{Time: oom[0].Int64, Size: uint64(oom[1].Int64), Device: device + 1, Live: uint64(oom[2].Int64), Peak: uint64(oom[3].Int64),
			Fragmented: fragmented.Bool, Holes: holes}
		m.LastOOM.Op, _ = events.OpByName(op)
	}
	m.Growth = tick.Growth{PerMinute: growth[0].Float64, Low: growth[1].Float64, High: growth[2].Float64, Over: over.Int64, Leak: leak.Bool}
	return pid, m, err
}
