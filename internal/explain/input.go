package explain

import (
	"time"

	"ingero/internal/tick"
	"ingero/pkg/events"
)

// Input is what a report is made from: one window of one recording, or of
// several processes' worth of them.
type Input struct {
	From, To time.Time
	Node     string // the machine; empty: not said
	Source   string // the database or the recording; empty: not said
	// Processes are those that were traced in the window. Operations of others
	// are reported under their number alone.
	Processes []tick.Process
	// Ops are the operations of the window: of each, Sum, Dur, Hist and Thinned.
	// An operation may occur more than once (once per session, say).
	Ops     []tick.Op
	Gaps    Gaps // nil: the time between calls is not known
	Drops   []tick.Drop
	Reports []tick.Report
	Host    *tick.Host // nil: not known
	Self    *tick.Self // nil: not known
}

// Gap is what the threads of one process did between their outermost calls, in
// nanoseconds: Total = OnCPU + Runnable + Blocked + Partial.
type Gap struct {
	Calls    uint64 // measured outermost calls, of which a thread's first has no gap before it
	Count    uint64 // gaps
	Total    uint64
	OnCPU    uint64
	Runnable uint64
	Blocked  uint64
	Partial  uint64 // OnCPU or Blocked: the thread blocked and changed CPU
}

// Gaps sums the time between calls per process. The zero value cannot be added
// to; Gaps{} can. It is for one goroutine.
type Gaps map[uint32]*Gap

// Add takes in the gap before a call, as often as the call's weight says.
// Nested calls have none, and of those whose return was not watched it is not
// known; it is then part of the next call's.
func (g Gaps) Add(c *events.Call) {
	if c.Flags&(events.CallNested|events.CallUnmeasured) != 0 {
		return
	}
	x := g.of(c.PID)
	w := uint64(max(c.Weight, 1))
	x.Calls += w
	if c.Gap <= 0 {
		return
	}
	total := uint64(c.Gap)
	runnable := min(uint64(max(c.GapRunnable, 0)), total)
	x.Count += w
	x.Total += w * total
	x.Runnable += w * runnable
	if c.Flags&events.CallGapPartial != 0 {
		x.Partial += w * (total - runnable)
		return
	}
	onCPU := min(uint64(max(c.GapOnCPU, 0)), total-runnable)
	x.OnCPU += w * onCPU
	x.Blocked += w * (total - runnable - onCPU)
}

// Merge adds all that o holds.
func (g Gaps) Merge(o Gaps) {
	for pid, y := range o {
		x := g.of(pid)
		x.Calls += y.Calls
		x.Count += y.Count
		x.Total += y.Total
		x.OnCPU += y.OnCPU
		x.Runnable += y.Runnable
		x.Blocked += y.Blocked
		x.Partial += y.Partial
	}
}

func (g Gaps) of(pid uint32) *Gap {
	x := g[pid]
	if x == nil {
		x = &Gap{}
		g[pid] = x
	}
	return x
}

// Options say for whom something is written. The zero value is 80 columns of
// plain text in UTC.
type Options struct {
	Width    int // columns; 0: 80
	Height   int // lines of the live table; 0: all it takes
	Color    bool
	Location *time.Location // the reader's; nil: UTC
}

func (o *Options) width() int {
	if o.Width <= 0 {
		return 80
	}
	return o.Width
}

func (o *Options) location() *time.Location {
	if o.Location == nil {
		return time.UTC
	}
	return o.Location
}
