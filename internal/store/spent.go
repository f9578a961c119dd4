package store

import "ingero/pkg/events"

// Part is a place where a thread that makes calls spends its time.
type Part uint8

// The parts. Together they are all the time from a thread's first call to its
// last.
const (
	PartSync Part = iota // in outermost calls that wait for the GPU
	PartCall             // in other outermost calls
	PartGap              // between outermost calls
	Parts
)

var partNames = [Parts]string{"sync", "call", "gap"}

// String returns the name that the database has for it.
func (p Part) String() string { return partNames[p] }

// Time is what became of some time, in nanoseconds. The four add up to it.
type Time struct {
	Count    uint64 // calls or gaps
	OnCPU    uint64
	Runnable uint64 // wanted a CPU and had none
	Blocked  uint64
	Unsplit  uint64 // on a CPU or blocked: it is not known which
}

// Total returns the time.
func (t *Time) Total() uint64 { return t.OnCPU + t.Runnable + t.Blocked + t.Unsplit }

// Spent is where the time of a process's threads went, from the records of its
// calls. Records count by weight, so it is an estimate where some were thinned.
type Spent [Parts]Time

// Add takes one call in, and the gap before it. Nested calls are part of the
// ones around them.
func (s *Spent) Add(c *events.Call) {
	if c.Flags&(events.CallNested|events.CallInherited) != 0 {
		return
	}
	w := uint64(c.Weight)
	if c.Gap > 0 {
		s[PartGap].add(c.GapOnCPU, c.GapRunnable, c.GapBlocked, w, c.Flags&events.CallGapPartial != 0)
	}
	if c.Flags&events.CallUnmeasured != 0 {
		return
	}
	part := PartCall
	if class(c.Op) == events.ClassSync {
		part = PartSync
	}
	s[part].add(c.OnCPU, c.Runnable, c.Blocked, w, c.Flags&events.CallLedgerPartial != 0)
}

func (t *Time) add(onCPU, runnable, blocked int64, weight uint64, unsplit bool) {
	on, off := uint64(max(onCPU, 0))*weight, uint64(max(blocked, 0))*weight
	t.Count += weight
	t.Runnable += uint64(max(runnable, 0)) * weight
	if unsplit {
		t.Unsplit += on + off
		return
	}
	t.OnCPU += on
	t.Blocked += off
}

// Plus adds the times of another.
func (s *Spent) Plus(o *Spent) {
	for i := range s {
		t, u := &s[i], &o[i]
		t.Count += u.Count
		t.OnCPU += u.OnCPU
		t.Runnable += u.Runnable
		t.Blocked += u.Blocked
		t.Unsplit += u.Unsplit
	}
}

// classes are the classes of operations by number, so that a call costs no map.
var classes = func() (t [1 << 16]events.Class) {
	for i := range events.Catalog {
		t[events.Catalog[i].Op] = events.Catalog[i].Class
	}
	return t
}()

func class(o events.Op) events.Class { return classes[o] }
