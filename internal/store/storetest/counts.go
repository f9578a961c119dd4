package storetest

import (
	"slices"

	"ingero/internal/stats"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

// Key is a process and an operation of it.
type Key struct {
	PID uint32
	Op  events.Op
}

// Counts has the calls of each process and operation, as the kernel counts them.
type Counts map[Key]*tick.Op

// Op returns the counts of an operation, and adds it if there were none.
func (n Counts) Op(pid uint32, o events.Op) *tick.Op {
	x := n[Key{pid, o}]
	if x == nil {
		x = &tick.Op{PID: pid, Op: o, Hist: &stats.Hist{}, Dur: &stats.Sketch{}, DurLast: &stats.Sketch{}}
		n[Key{pid, o}] = x
	}
	return x
}

// See counts calls.
func (n Counts) See(calls ...events.Call) {
	for i := range calls {
		c := &calls[i]
		o := n.Op(c.PID, c.Op)
		o.Sum.Calls++
		if c.Flags&events.CallNested != 0 {
			o.Sum.Nested++
		}
		if c.Flags&events.CallUnmeasured != 0 {
			o.Sum.Unmeasured++
			continue
		}
		o.Sum.Done++
		if c.Flags&events.CallFailed != 0 {
			o.Sum.Errors++
		}
		o.Sum.Total += uint64(c.Duration)
		o.Sum.Runnable += uint64(c.Runnable)
		if c.Flags&events.CallLedgerPartial != 0 {
			o.Sum.Partial++
			o.Sum.PartialNS += uint64(c.Duration - c.Runnable)
		} else {
			o.Sum.OnCPU += uint64(c.OnCPU)
		}
		o.Hist.Record(c.Duration, 1)
		o.Dur.Add(c.Duration, 1)
		if c.Flags&events.CallNested != 0 {
			n.Op(c.PID, c.Parent).Sum.Inner += uint64(c.Duration)
		}
	}
}

// List returns copies, by process and operation.
func (n Counts) List() (out []tick.Op) {
	for _, o := range n {
		c := *o
		c.Hist, c.Dur, c.DurLast = new(*o.Hist), o.Dur.Clone(), o.DurLast.Clone()
		out = append(out, c)
	}
	slices.SortFunc(out, ByOp)
	return out
}
