package query

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"slices"

	"modernc.org/sqlite/vtab"

	"ingero/internal/stats"
	"ingero/internal/store"
	"ingero/internal/symbols"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

// Functions returns the GPU functions that were launched in a session. They outlive the calls.
func (r *Reader) Functions(ctx context.Context, s *Session) (*symbols.Functions, error) {
	out := &symbols.Functions{}
	names := map[int64]string{} // thousands of handles have some hundred names
	err := r.rows(ctx, func(rows *sql.Rows) error {
		var id int64
		var name string
		err := rows.Scan(&id, &name)
		names[id] = name
		return err
	}, "SELECT id, name FROM names WHERE session = ?", s.id)
	if err == nil {
		err = r.rows(ctx, func(rows *sql.Rows) error {
			var f events.Function
			var handle int64
			var name sql.NullInt64
			err := rows.Scan(&f.PID, &handle, &f.Time, &name, &f.Why)
			f.Handle, f.Name = uint64(handle), names[name.Int64]
			out.Add([]events.Function{f})
			return err
		}, "SELECT pid, handle, since_ns, name, reason FROM functions WHERE session = ?", s.id)
	}
	if err != nil {
		return nil, fmt.Errorf("read the functions of session %s: %w", s.ID, err)
	}
	return out, nil
}

// FunctionStat sums up the launches of a GPU function.
type FunctionStat struct {
	Function string // linker symbol; "": no name
	Why      string // reason for having no name
	PID      uint32 // 0 unless grouped by process
	Op       events.Op
	Sum      tick.Counts // of records, by weight; Inner and Abandoned are 0
	Dur      *stats.Sketch
}

// FunctionStats sums up the matching launches by function and operation, without launches inside
// another launch. It needs the calls, so it fails if they are gone. The filter must select one
// session.
func (r *Reader) FunctionStats(ctx context.Context, f Filter, perPID bool) ([]FunctionStat, Coverage, error) {
	type key struct {
		name  string
		why   events.NoName
		named bool
		pid   uint32
		op    events.Op
	}
	s, err := r.Session(ctx, f.Session)
	if err != nil {
		return nil, Coverage{}, err
	}
	funcs, err := r.Functions(ctx, &s)
	if err != nil {
		return nil, Coverage{}, err
	}
	found := map[key]*store.Sum{}
	f.Session = s.ID
	cover, err := r.Each(ctx, f, func(_ *Session, c *events.Call, _ uint64) bool {
		if !symbols.Launches(c) {
			return true
		}
		x, named := funcs.Lookup(c)
		k := key{name: x.Name, why: x.Why, named: named, op: c.Op}
		if perPID {
			k.pid = c.PID
		}
		sum := found[k]
		if sum == nil {
			sum = &store.Sum{}
			found[k] = sum
		}
		sum.Add(c)
		return true
	})
	var out []FunctionStat
	for k, sum := range found {
		x := FunctionStat{Function: k.name, Why: k.why.String(), PID: k.pid, Op: k.op, Sum: sum.Counts, Dur: &sum.Dur}
		if !k.named {
			x.Why = "it was not recorded"
		}
		out = append(out, x)
	}
	slices.SortFunc(out, func(a, b FunctionStat) int {
		return cmp.Or(cmp.Compare(b.Sum.Calls, a.Sum.Calls), cmp.Compare(a.Function, b.Function), cmp.Compare(a.Why, b.Why),
			cmp.Compare(a.PID, b.PID), cmp.Compare(a.Op, b.Op))
	})
	return out, cover, err
}

// readable caches demangled names.
type readable map[string]vtab.Value

func (r readable) value(name string) vtab.Value {
	if name == "" {
		return nil
	}
	v, ok := r[name]
	if !ok {
		v = symbols.Demangle(name)
		r[name] = v
	}
	return v
}
