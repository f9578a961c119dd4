package legacy

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"ingero/internal/store"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

// Report describes a conversion.
type Report struct {
	Sessions []string // IDs
	Nodes    []string
	Calls    uint64   // calls with a record of their own
	Summed   uint64   // calls that 0.9 kept as sums of a minute
	Passed   []Passed // data that a recording cannot hold
}

// Passed counts skipped data, by name: a table, a column, an operation.
type Passed struct {
	What  string
	Count uint64
}

// Options configure a conversion.
type Options struct {
	Path  string       // of the new database, which must not exist
	Node  string       // the recordings' machine; "": from the database
	Owner *store.Owner // owner of new files; nil: this process's user
}

// Convert writes the database's content as recordings. The same database always gives the same
// recordings, with the same IDs. It returns an error that wraps [ErrNoNode] if the database does
// not name its machine and Options do not either.
func (d *DB) Convert(ctx context.Context, o Options) (*Report, error) {
	sessions, err := d.sessions(ctx, o.Node)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", d.path, err)
	}
	r := &Report{}
	for _, s := range sessions {
		if err := d.session(ctx, o, s, len(sessions), r); err != nil {
			return nil, fmt.Errorf("%s: session of %s: %w", d.path, s.Started.Format(time.RFC3339), err)
		}
		r.Sessions = append(r.Sessions, s.ID)
		if !slices.Contains(r.Nodes, s.Node) {
			r.Nodes = append(r.Nodes, s.Node)
		}
	}
	if err := d.passed(ctx, r); err != nil {
		return nil, fmt.Errorf("%s: %w", d.path, err)
	}
	slices.SortFunc(r.Passed, func(a, b Passed) int { return cmp.Compare(a.What, b.What) })
	return r, nil
}

// session converts one session.
func (d *DB) session(ctx context.Context, o Options, s *session, of int, r *Report) (err error) {
	w := &writer{s: s, now: s.Started, ops: map[opKey]*tick.Op{}, procs: map[uint32]*tick.Process{}, order: order{open: map[uint32][]frame{}}}
	w.db, err = store.Open(store.Options{Path: o.Path, Owner: o.Owner, Session: s.Session,
		Now: func() time.Time { return w.now }, AfterFunc: func(time.Duration, func()) func() bool { return func() bool { return true } }})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.db.Close()) }()
	if w.hosts, err = d.hosts(ctx, s); err != nil {
		return err
	}
	if err := d.events(ctx, s, func(e *event) error { return w.event(e) }); err != nil {
		return err
	}
	w.order.until(math.MaxInt64, w.give)
	if err := d.sums(ctx, s, of, w, r); err != nil {
		return err
	}
	if err := errors.Join(d.names(ctx, w), d.places(ctx, w), d.ranks(ctx, w)); err != nil {
		return err
	}
	if w.chains, err = d.chains(ctx, s); err != nil {
		return err
	}
	r.Calls += w.calls
	return w.end()
}

// event is a row of the table events.
type event struct {
	time, duration int64
	pid, tid       uint32
	code           code
	arg0, arg1     int64
	result         int32
	stack          int64
	comm           string
}

// events calls visit for each known event of a session, ordered by time; of events that began
// together, the longest comes first.
func (d *DB) events(ctx context.Context, s *session, visit func(*event) error) error {
	t := "events"
	var e event
	return d.rows(ctx, func(rows *sql.Rows) error {
		err := rows.Scan(&e.time, &e.duration, &e.pid, &e.tid, &e.code.source, &e.code.op, &e.arg0, &e.arg1, &e.result, &e.stack, &e.comm)
		if err != nil {
			return err
		}
		return visit(&e)
	}, "SELECT timestamp, duration, pid, tid, source, op, arg0, arg1, ret_code, "+d.column(t, "stack_hash", "0")+", "+d.column(t, "comm", "''")+
		" FROM events WHERE timestamp >= ? AND timestamp < ? AND "+d.column(t, "node", "''")+" = ? ORDER BY timestamp, duration DESC", s.from, s.to, s.node)
}

// names fills in the processes' names.
func (d *DB) names(ctx context.Context, w *writer) error {
	if d.has("process_names", "pid", "name") {
		err := d.rows(ctx, func(rows *sql.Rows) error {
			var pid uint32
			var name string
			err := rows.Scan(&pid, &name)
			if p := w.procs[pid]; p != nil && p.Comm == "" {
				p.Comm = name
			}
			return err
		}, "SELECT pid, name FROM process_names")
		if err != nil {
			return err
		}
	}
	return nil
}

// isCall reports whether a code is a call today, and which.
func isCall(c code) (events.Op, bool) {
	op, ok := ops[c]
	return op, ok
}
