package causal

import (
	"fmt"
	"slices"
	"time"

	"ingero/internal/govern"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

// lateCounts is the largest age of a tick's counts, ns.
const lateCounts = int64(2e9)

// failing returns a Find of processes whose calls fail with permanent error codes. All time since
// the first of them is lost. after means that launches may have succeeded before.
func failing(after bool, codes ...int32) func(*Window) []Finding {
	return func(w *Window) (out []Finding) {
		for i := range w.Tick.States {
			if x, ok := w.failingOf(&w.Tick.States[i], after, codes); ok {
				out = append(out, x)
			}
		}
		return out
	}
}

func (w *Window) failingOf(s *tick.State, after bool, codes []int32) (x Finding, ok bool) {
	var first *tick.CallError
	var count uint64
	for i := range s.Errors.First {
		e := &s.Errors.First[i]
		if !slices.Contains(codes, e.Code) {
			continue
		}
		count += e.Count
		if first == nil || e.First < first.First || e.First == first.First && e.Op < first.Op {
			first = e
		}
	}
	if first == nil || w.works(s.PID, first.First, after) || w.Now()-first.First > windowSeconds*1e9 && !w.goesOn(s.PID) {
		return x, false
	}
	to := w.Now()
	if b := w.History(s.PID); b != nil && b.Ended != 0 {
		to = b.Ended
	}
	from := max(first.First, w.Now()-windowSeconds*1e9)
	lost := max(to-from, 0)
	return Finding{
		PID: s.PID, Op: first.Op, From: from, To: to, Lost: lost, Severity: tick.High,
		Baseline: "calls that succeed",
		Culprits: []tick.Culprit{{What: fmt.Sprintf("%s in %s", first.Name(), first.Op), Lost: time.Duration(lost)}},
		Timeline: []tick.Moment{moment(first.First, "CUDA", "%s fails: %s (%d); %d such failures since", first.Op, first.Name(), first.Code, count)},
	}, true
}

// works reports whether a process has launched something since a time. With after, only seconds
// that are surely later count.
func (w *Window) works(pid uint32, since int64, after bool) bool {
	b := w.History(pid)
	if b == nil {
		return false
	}
	for i := range b.Seconds {
		s := &b.Seconds[i]
		if s.To <= since || after && s.From < since+lateCounts {
			continue
		}
		unseen := w.unseen(pid, s.From, s.To)&govern.LaunchTimes != 0
		for _, o := range s.Ops {
			if unseen && classOf(o.Op) == events.ClassSync && o.Done > o.Errors { // launches may have failed
				return true
			}
			if classOf(o.Op) == events.ClassLaunch && o.NS > 0 && o.Calls > o.Errors { // NS 0: unknown whether they failed
				return true
			}
		}
	}
	return false
}

// goesOn reports whether calls of a process failed in its last second.
func (w *Window) goesOn(pid uint32) bool {
	b := w.History(pid)
	if b == nil || len(b.Seconds) < 2 || b.Ended != 0 {
		return false
	}
	n := len(b.Seconds)
	return b.Seconds[n-1].Failed > b.Seconds[n-2].Failed
}
