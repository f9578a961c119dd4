package track

import (
	"testing"
	"time"

	"ingero/internal/tick"
	"ingero/pkg/events"
)

const second = int64(time.Second)

// began is when the processes of tests begin, in Unix nanoseconds.
const began = 1_700_000_000 * second

// opNamed returns an operation of the catalog.
func opNamed(t testing.TB, name string) events.Op {
	t.Helper()
	ops := rowsNamed(name)
	if len(ops) == 0 {
		t.Fatalf("the catalog has no %s", name)
	}
	return ops[0]
}

// bench is a tracker with a sequence of calls for it.
type bench struct {
	t  testing.TB
	tr *Tracker
	at int64
}

// newBench returns a bench that knows process 1 from its start.
func newBench(t testing.TB) *bench {
	b := &bench{t: t, tr: New(), at: began}
	b.tr.Batch(nil, []tick.ProcEvent{{Time: began, Kind: tick.ProcForked, PID: 9, Peer: 1}})
	return b
}

// with has the values of a call, by role.
type with map[events.Role]uint64

// make returns a call of a microsecond that ends a microsecond after the last.
func (b *bench) make(name string, w with) events.Call {
	b.t.Helper()
	b.at += 1000
	c := events.Call{Op: opNamed(b.t, name), PID: 1, TID: 1, Start: b.at - 1000, Duration: 1000, Weight: 1}
	r := c.Op.Row()
	for role, v := range w {
		if !r.Has(role) {
			b.t.Fatalf("%s has no %s", name, role)
		}
		if tag, _ := events.SplitRole(r.Tag); tag == role {
			c.Tag = uint32(v)
		}
		for i, k := range r.Keep {
			if is, _ := events.SplitRole(k); is == role {
				c.Args[i] = v
			}
		}
	}
	return c
}

// call feeds a call, modified by how.
func (b *bench) call(name string, w with, how ...func(*events.Call)) events.Call {
	b.t.Helper()
	c := b.make(name, w)
	for _, f := range how {
		f(&c)
	}
	batch := tick.Batch{Calls: []events.Call{c}}
	b.tr.Batch(batch.Calls, nil)
	return batch.Calls[0]
}

func failing(result int32) func(*events.Call) {
	return func(c *events.Call) { c.Result, c.Flags = result, c.Flags|events.CallFailed }
}

func onThread(tid uint32) func(*events.Call) {
	return func(c *events.Call) { c.TID = tid }
}

func within(t testing.TB, parent string) func(*events.Call) {
	return func(c *events.Call) { c.Parent, c.Flags = opNamed(t, parent), c.Flags|events.CallNested }
}

// state returns the state of process 1, with records for all of its calls.
func (b *bench) state() tick.State {
	b.t.Helper()
	var to tick.Tick
	to.States = b.tr.Tick(to.Processes, to.Ops)
	for _, s := range to.States {
		if s.PID == 1 {
			return s
		}
	}
	b.t.Fatal("no state of the process")
	return tick.State{}
}
