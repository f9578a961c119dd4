package explain

import (
	"cmp"
	"slices"
	"strings"

	"ingero/internal/tick"
	"ingero/pkg/events"
)

// Choice selects and orders the contents of a live table. The zero value selects all, in the order
// of the layers.
type Choice struct {
	PID   uint32 // only this process; 0: all
	Text  string // operations and processes with this text in their name, in any case; "": all
	Order Order
}

// Order is the order of operations within their layer.
type Order uint8

// orders are the orders; the first one is the zero value. Rows are sorted by key, largest first. If
// it is nil, they are in the order of the layers, or by name.
var orders = [...]struct {
	name string
	key  func(o *tick.Op, q *quantiles) uint64
}{
	{"as listed", nil},
	{"time", func(o *tick.Op, _ *quantiles) uint64 { return own(&o.Sum) }},
	{"count", func(o *tick.Op, _ *quantiles) uint64 { return o.Sum.Calls }},
	{"p50", func(_ *tick.Op, q *quantiles) uint64 { return uint64(max(q.p50, 0)) }},
	{"p95", func(_ *tick.Op, q *quantiles) uint64 { return uint64(max(q.p95, 0)) }},
	{"p99", func(_ *tick.Op, q *quantiles) uint64 { return uint64(max(q.p99, 0)) }},
	{"failed", func(o *tick.Op, _ *quantiles) uint64 { return o.Sum.Errors }},
	{"name", nil},
}

// byNameOrder is the last of the orders.
const byNameOrder = Order(len(orders) - 1)

// String returns the table column that the order uses.
func (o Order) String() string { return orders[o].name }

// Next returns the next or previous order, in a circle.
func (o Order) Next(back bool) Order {
	step := 1
	if back {
		step = len(orders) - 1
	}
	return Order((int(o) + step) % len(orders))
}

// listed is an operation in display order. Low ranks are left out first.
type listed struct {
	*tick.Op
	q    quantiles
	rank uint64
}

// list returns the operations of a layer in this order.
func (o Order) list(source events.Source, ops []tick.Op) []listed {
	var out []listed
	for i := range ops {
		if x := &ops[i]; x.Op.Source() == source {
			out = append(out, listed{x, quantilesOf(x.Dur, x.Hist, x.Thinned), own(&x.Sum)})
		}
	}
	key := orders[o].key
	switch {
	case key != nil:
		slices.SortStableFunc(out, func(a, b listed) int { return cmp.Compare(key(b.Op, &b.q), key(a.Op, &a.q)) })
	case o == byNameOrder:
		slices.SortStableFunc(out, func(a, b listed) int {
			return cmp.Compare(strings.ToLower(a.Op.Op.String()), strings.ToLower(b.Op.Op.String()))
		})
	}
	if o != 0 { // the last rows are left out first
		for i := range out {
			out[i].rank = uint64(len(out) - i)
		}
	}
	return out
}

// apply returns a copy of t with only the chosen parts. The text selects processes if one of them
// has it in its name; otherwise it selects operations.
func (c *Choice) apply(t *tick.Tick) *tick.Tick {
	if c.PID == 0 && c.Text == "" {
		return t
	}
	text := strings.ToLower(c.Text)
	has := func(name string) bool { return text != "" && strings.Contains(strings.ToLower(name), text) }
	named := map[uint32]bool{}
	for i := range t.Processes {
		p := &t.Processes[i]
		named[p.PID] = has(processName(p.Comm, p.PID))
	}
	some := false
	for pid, is := range named {
		some = some || is && (c.PID == 0 || c.PID == pid)
	}
	process := func(pid uint32) bool { return (c.PID == 0 || pid == c.PID) && (!some || named[pid]) }
	out := *t
	out.Ops = chosen(t.Ops, func(o *tick.Op) bool {
		return (c.PID == 0 || o.PID == c.PID) && (text == "" || named[o.PID] || has(o.Op.String()))
	})
	out.Processes = chosen(t.Processes, func(p *tick.Process) bool { return process(p.PID) })
	out.Threads = chosen(t.Threads, func(x *tick.Thread) bool { return process(x.PID) })
	out.Breakdowns = chosen(t.Breakdowns, func(x *tick.Breakdown) bool { return process(x.PID) })
	out.Chains = chosen(t.Chains, func(x *tick.Chain) bool { return process(x.PID) })
	out.States = chosen(t.States, func(x *tick.State) bool { return process(x.PID) })
	out.Launches = chosen(t.Launches, func(x *tick.Launches) bool { return process(x.PID) })
	return &out
}

// chosen returns the selected elements of a list.
func chosen[T any](list []T, want func(*T) bool) []T {
	var out []T
	for i := range list {
		if want(&list[i]) {
			out = append(out, list[i])
		}
	}
	return out
}

// Where writes where the time of each process went since the session began: by part, and by thread
// and cause. It is 80 columns wide; processes that lost most come first.
func Where(t *tick.Tick, o Options) string {
	t = o.Choice.apply(t)
	r := build(&Input{From: t.Started, To: t.Time, Processes: t.Processes, Ops: t.Ops, Breakdowns: t.Breakdowns, Threads: t.Threads})
	w := &writer{loc: o.location(), noTruncate: o.NoTruncate}
	for _, b := range byGravity(t) {
		for i := range r.Processes {
			p := &r.Processes[i]
			if p.PID != b.PID || p.Breakdown == nil {
				continue
			}
			if w.Len() > 0 {
				w.line("")
			}
			w.breakdown(p, r.source[p.PID])
			w.threadTimes(r.source[p.PID])
		}
	}
	if w.Len() == 0 {
		w.line("No thread has made a traced call yet.")
	}
	return w.String()
}
