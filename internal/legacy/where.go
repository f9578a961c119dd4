package legacy

import (
	"context"
	"database/sql"

	"ingero/internal/tick"
	"ingero/internal/where"
)

// sessionWhere restricts events e to a session's; the arguments are from, to and node.
func (d *DB) sessionWhere() string {
	return "e.timestamp >= ? AND e.timestamp < ? AND " + d.column("events", "node", "''") + " = ?"
}

// places fills in each process's last cgroup, and what its path implies.
func (d *DB) places(ctx context.Context, w *writer) error {
	if !d.has("cgroup_metadata", "cgroup_id", "cgroup_path") || !d.has("events", "cgroup_id") {
		return nil
	}
	return d.rows(ctx, func(rows *sql.Rows) error {
		var pid uint32
		var path string
		var last int64
		err := rows.Scan(&pid, &path, &last)
		if p := w.procs[pid]; p != nil {
			p.Cgroup, p.Where = path, where.Cgroups([]string{path})
		}
		return err
	}, "SELECT e.pid, m.cgroup_path, max(e.timestamp) FROM events e JOIN cgroup_metadata m USING (cgroup_id) WHERE "+d.sessionWhere()+" GROUP BY e.pid",
		w.s.from, w.s.to, w.s.node)
}

// ranks fills in each process's rank from its last event with one.
func (d *DB) ranks(ctx context.Context, w *writer) error {
	if !d.has("events", "rank") {
		return nil
	}
	return d.rows(ctx, func(rows *sql.Rows) error {
		var pid uint32
		var rank, last int64
		err := rows.Scan(&pid, &rank, &last)
		if p := w.procs[pid]; p != nil && rank >= 0 && rank <= 1<<31-1 {
			p.Rank = tick.Numbered(uint32(rank))
		}
		return err
	}, "SELECT e.pid, e.rank, max(e.timestamp) FROM events e WHERE typeof(e.rank) = 'integer' AND "+d.sessionWhere()+" GROUP BY e.pid",
		w.s.from, w.s.to, w.s.node)
}
