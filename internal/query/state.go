package query

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
)

// StateView is a view of what follows from calls: memory, graphs and so on, in the
// last state of each process, or of a window what was in use in it.
type StateView struct {
	Name, About string
	columns     string // SQL of the file's table, without the session
	table       string
	order       string
	// of the window: a condition on from (?1) and to (?2); "" where the table has no times
	in string
}

// StateViews are all, in the order in which they are explained.
var StateViews = []StateView{
	{"memory", "what each process holds of GPU and pinned memory, and what went wrong with it",
		"pid, gpu_bytes, gpu_peak, gpu_count, host_bytes, allocs, frees, double_frees, unknown_frees, ooms, oom_bytes, oom_fragmented, growth_low, growth_high, leak, inexact",
		"ledgers", "gpu_bytes DESC, pid", ""},
	{"usage", "the memory of each process, second by second",
		"iso(time_ns) AS at, pid, gpu_bytes, host_bytes, allocs, frees, exact", "memory", "time_ns, pid", "time_ns >= ? AND time_ns < ?"},
	{"held", "the memory of each process by kind and device",
		"pid, kind, nullif(device, -1) AS device, bytes, peak, count, unsized", "held", "bytes DESC, pid, kind, device", ""},
	{"streams", "launches and copies of each stream",
		"pid, printf('0x%x', handle) AS stream, device, launches, outstanding, copies, bytes, captures, iso(last_ns) AS last", "streams", "launches DESC, number", "last_ns >= ? AND last_ns < ?"},
	{"graphs", "the life of CUDA graphs",
		"pid, printf('0x%x', exec) AS exec, device, iso(captured_ns) AS captured, capture_ns, capture_launches, cold, instantiate_ns, launches, iso(last_launch_ns) AS last_launch, updates, update_fails, uploads, iso(destroyed_ns) AS destroyed",
		"graphs", "launches DESC, number",
		"coalesce(last_launch_ns, instantiated_ns, captured_ns) >= ? AND coalesce(captured_ns, instantiated_ns, last_launch_ns) < ?"},
	{"comms", "NCCL communicators and their last operation; the ranks of one have the same id",
		"id, rank, ranks, pid, device, state, sequence, failed, last_op, last_elements, last_bytes, iso(last_ns) AS last", "comms", "id, rank, number",
		"coalesce(last_ns, began_ns, 0) >= ? AND coalesce(began_ns, last_ns, 0) < ?"},
	{"copies", "how much was copied, in which direction, from or to which kind of host memory",
		"pid, direction, host, count, bytes, call_ns, estimated", "copies", "bytes DESC, pid", ""},
	{"errors", "which calls failed, and how",
		"pid, name AS op, error, count, iso(first_ns) AS first, iso(last_ns) AS last", "errors", "count DESC, pid, op", "last_ns >= ? AND first_ns < ?"},
}

// StateViewNamed returns a view.
func StateViewNamed(name string) (StateView, bool) {
	i := slices.IndexFunc(StateViews, func(v StateView) bool { return v.Name == name })
	if i < 0 {
		return StateView{}, false
	}
	return StateViews[i], true
}

// State returns the rows of a view for the filter's processes, of its sessions and
// window. Operations of the filter do not matter.
func (r *Reader) State(ctx context.Context, f Filter, v StateView) (*SQLResult, error) {
	out := &SQLResult{}
	err := r.ofSessions(ctx, f, func(s *Session, from, to int64) error {
		where, args := "session = ?", []any{s.id}
		if v.in != "" {
			where, args = where+" AND "+v.in, append(args, from, to)
		}
		if len(f.PIDs) > 0 {
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
		}, fmt.Sprintf("SELECT %s FROM %s WHERE %s ORDER BY %s", v.columns, v.table, where, v.order), args...)
	})
	if out.Columns == nil {
		out.Columns = v.names()
	}
	return out, err
}

// names are the names of the view's columns.
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
