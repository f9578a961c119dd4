package legacy

import (
	"context"
	"database/sql"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// taken are the columns that a conversion reads, by table. Tables without columns need no report:
// their content is known otherwise.
var taken = map[string]string{
	"events":           "id timestamp pid tid source op duration arg0 arg1 ret_code stack_hash node comm cgroup_id rank",
	"sessions":         "id started_at stopped_at node kernel ingero_ver pid_filter cpu_cores mem_total",
	"event_aggregates": "bucket source op pid count stored sum_dur min_dur max_dur",
	"process_names":    "pid name seen_at",
	"system_snapshots": "id timestamp cpu_pct mem_avail swap_mb load_avg",
	"causal_chains":    "id detected_at severity summary root_cause explanation recommendations cuda_op cuda_p99_us cuda_p50_us timeline node",
	"cgroup_metadata":  "cgroup_id cgroup_path",
	"sources":          "", "ops": "", "schema_info": "",
}

// passed counts skipped data: rows of tables, values of columns, and events by operation.
func (d *DB) passed(ctx context.Context, r *Report) error {
	add := func(what string, n uint64) {
		if n > 0 {
			r.Passed = append(r.Passed, Passed{what, n})
		}
	}
	for _, table := range slices.Sorted(maps.Keys(d.columns)) {
		columns, known := taken[table]
		if known && columns == "" {
			continue
		}
		names, counts := []string{"table " + table}, []string{"count(*)"}
		if known {
			names, counts = nil, nil
			for _, c := range d.columns[table] {
				if !slices.Contains(strings.Fields(columns), c) {
					names = append(names, "column "+table+"."+c)
					counts = append(counts, fmt.Sprintf("count(*) FILTER (WHERE %[1]s NOT IN (0, ''))", quoted(c)))
				}
			}
		}
		if len(names) == 0 {
			continue
		}
		values, to := make([]uint64, len(names)), make([]any, len(names))
		for i := range values {
			to[i] = &values[i]
		}
		if err := d.sql.QueryRowContext(ctx, "SELECT "+strings.Join(counts, ", ")+" FROM "+quoted(table)).Scan(to...); err != nil {
			return err
		}
		for i, name := range names {
			add(name, values[i])
		}
	}
	return d.rows(ctx, func(rows *sql.Rows) error {
		var c code
		var name string
		var n uint64
		if err := rows.Scan(&c.source, &c.op, &name, &n); err != nil {
			return err
		}
		if _, call := isCall(c); !call && lives[c] == 0 {
			add("events of "+name, n)
		}
		return nil
	}, "SELECT e.source, e.op, "+d.opName()+", count(*) FROM events e GROUP BY 1, 2")
}

// opName returns SQL for the database's own name of an operation.
func (d *DB) opName() string {
	number := "'operation ' || e.op || ' of source ' || e.source"
	if !d.has("ops", "source_id", "op_id", "name") {
		return number
	}
	return "coalesce((SELECT name FROM ops WHERE source_id = e.source AND op_id = e.op), " + number + ")"
}

func quoted(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }
