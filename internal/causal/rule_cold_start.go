package causal

import (
	"math"
	"time"

	"ingero/internal/govern"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

const (
	startSpan   = int64(10e9) // ns from a process's first call: the start
	coldTimes   = 20          // minimum cost of a start, in normal steps
	coldCalls   = 5           // threshold for a second of the start, in multiples of the usual time
	steadyCalls = 1           // seconds in which an operation's usual time is learned
)

var coldStart = Rule{
	Name: "cold-start", Sees: govern.LaunchTimes | govern.QuickTimes, Needs: NeedCalls, Share: 0.01, Problems: []string{"19"},
	Doc:  "The first calls took many times as long as later ones, because they load code and initialize the device.",
	Find: eachProcess(windowSeconds*1e9, (*Window).startOf),
}

// startOf adds up how much longer the calls of a process's first seconds took than the same calls
// later. Operations used only at the start count in full.
func (w *Window) startOf(b *ProcessHistory) (x Finding, ok bool) {
	seconds := b.start()
	if len(seconds) <= steadyCalls {
		return x, false
	}
	p := w.process(b.PID)
	usual := w.usualTimes(b.PID, seconds)
	recaptures := w.cost(b.PID, &captureSteps).steps >= minLearn
	var most float64
	for i := range seconds {
		s := &seconds[i]
		if s.From-b.Called > startSpan {
			break
		}
		var lost float64
		for _, o := range s.Ops {
			if o.Done == 0 || !starts(o.Op) || recaptures && graphOp(classOf(o.Op)) { // graph-recapture reports these
				continue
			}
			normal := usual[o.Op] * float64(o.Done)
			if float64(o.Own) < coldCalls*normal {
				continue
			}
			more := float64(o.Own) - normal
			if lost += max(more, 0); more > most {
				most, x.Op = more, o.Op
			}
		}
		if lost < float64(leastLost)/10 {
			break
		}
		x.Lost += int64(lost)
		x.To = s.To
	}
	if p.all < minLearn || x.Lost < coldTimes*p.p50 {
		return x, false
	}
	x.PID, x.TID, x.From, x.P50 = b.PID, p.tid, b.Called, p.p50
	x.Min, x.Max = x.Lost*8/10, x.Lost*11/10
	x.Confidence, x.Baseline = 0.9, "the same calls later; a normal step takes "+span(p.p50)
	x.Culprits = []tick.Culprit{{What: "first calls, mostly " + x.Op.String(), Lost: time.Duration(x.Lost)}}
	x.Timeline = []tick.Moment{moment(x.From, "CUDA", "the first calls took %s longer than the same calls later (%s a step)", span(x.Lost), span(p.p50))}
	return x, true
}

// usualTimes returns the shortest mean time of each operation's calls after the first of some seconds.
// Operations that were no longer called are missing. Operations that were called but no longer
// timed have an infinite time, so they have no excess.
func (w *Window) usualTimes(pid uint32, seconds []Second) map[events.Op]float64 {
	usual, later := map[events.Op]float64{}, map[events.Op]bool{}
	for i := len(seconds) - 1; i >= 1; i-- {
		for _, o := range seconds[i].Ops {
			later[o.Op] = later[o.Op] || o.Calls > 0
			if o.Done == 0 {
				continue
			}
			each := float64(o.Own) / float64(o.Done)
			if old, there := usual[o.Op]; !there || each < old {
				usual[o.Op] = each
			}
		}
	}
	for _, o := range seconds[0].Ops { // may still be called, unseen
		if _, there := usual[o.Op]; !there && factsOf(o.Op)&w.unseen(pid, seconds[0].From, w.Now()) != 0 {
			later[o.Op] = true
		}
	}
	for op := range later {
		if _, there := usual[op]; !there {
			usual[op] = math.Inf(1)
		}
	}
	return usual
}

// starts reports whether an operation's slow first calls set something up or load what it needs.
// Operations that wait for the GPU do not.
func starts(op events.Op) bool {
	switch classOf(op) {
	case events.ClassSync, events.ClassMemcpy, events.ClassMalloc, events.ClassFree, events.ClassQuery, events.ClassCollective, events.ClassComm:
		return false
	}
	return true
}

// notAtStart reports whether a finding extends beyond a process's first steps, which cold-start
// reports.
func notAtStart(w *Window, x *Finding) bool {
	b := w.History(x.PID)
	if b == nil || b.start() == nil {
		return true
	}
	first := b.Called
	if from := w.process(x.PID).from; from != 0 {
		first = min(first, from)
	}
	return x.To > first+3e9 || x.From > first+1e9
}
