package legacy

import (
	"cmp"
	"context"
	"crypto/sha256"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"ingero/internal/store"
	"ingero/internal/store/segment"
)

// ErrNoNode means that the database does not name its machine.
var ErrNoNode = errors.New("the database does not name its machine")

// session is one recording of 0.9.
type session struct {
	segment.Session
	from, to int64 // its events began in [from, to), Unix ns
	stopped  int64 // 0: unknown
	node     string
	cpus     int
	mem      int64 // bytes
}

// sessions finds the recordings, ordered by machine and time. A machine with events and no
// recording has one with all of them. node, if not empty, is the machine of all.
func (d *DB) sessions(ctx context.Context, node string) ([]*session, error) {
	byNode := map[string][]*session{}
	if d.has("sessions", "started_at") {
		s := "sessions"
		err := d.rows(ctx, func(rows *sql.Rows) error {
			x := &session{}
			var started int64
			var pids, flags, cpu string
			err := rows.Scan(&started, &x.stopped, &x.cpus, &x.mem, &x.node, &x.Kernel, &x.Version, &pids, &flags, &cpu)
			x.mem <<= 20
			x.Started = time.Unix(0, started)
			if pids != "" {
				x.Target = "pid " + pids
			}
			x.ID = fmt.Sprint(x.Kernel, "\x00", x.Version, "\x00", pids, "\x00", flags, "\x00", cpu) // identifies it
			byNode[x.node] = append(byNode[x.node], x)
			return err
		}, "SELECT started_at, "+d.list(s, "0", "stopped_at", "cpu_cores", "mem_total")+", "+
			d.list(s, "''", "node", "kernel", "ingero_ver", "pid_filter", "flags", "cpu_model")+" FROM sessions ORDER BY started_at")
		if err != nil {
			return nil, fmt.Errorf("read sessions: %w", err)
		}
	}
	err := d.rows(ctx, func(rows *sql.Rows) error {
		var name string
		var first int64
		err := rows.Scan(&name, &first)
		if len(byNode[name]) == 0 {
			byNode[name] = []*session{{node: name, Session: segment.Session{Started: time.Unix(0, first)}}}
		}
		return err
	}, "SELECT "+d.column("events", "node", "''")+" AS n, min(timestamp) FROM events GROUP BY n")
	if err != nil {
		return nil, fmt.Errorf("read events: %w", err)
	}
	var out []*session
	for _, all := range byNode {
		for i, x := range all {
			x.from, x.to = x.Started.UnixNano(), math.MaxInt64
			if i == 0 {
				x.from = math.MinInt64
			}
			if i+1 < len(all) {
				x.to = all[i+1].Started.UnixNano()
			}
			if err := x.name(node); err != nil {
				return nil, err
			}
			out = append(out, x)
		}
	}
	slices.SortFunc(out, func(a, b *session) int { return cmp.Or(a.Started.Compare(b.Started), cmp.Compare(a.ID, b.ID)) })
	return out, nil
}

// name gives a recording its ID, which is the same in each conversion.
func (x *session) name(node string) error {
	x.Node, x.Mode = cmp.Or(node, x.node), store.Imported
	if x.Node == "" {
		return ErrNoNode
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\x00%d\x00%s", x.Node, x.Started.UnixNano(), x.ID))
	x.ID = store.SessionID(x.Node, x.Started, [4]byte(sum[:4]))
	if x.Version == "" {
		x.Version = "0.9"
	}
	return nil
}
