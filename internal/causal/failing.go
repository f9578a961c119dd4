package causal

import (
	"fmt"
	"time"

	"ingero/internal/govern"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

// lateCounts is by how much a tick's counts may be older than the tick, ns.
const lateCounts = int64(2e9)

// failing finds processes whose calls fail with codes that do not go away. All time since
// the first of them is lost. after says that launches may have succeeded before.
func failing(f *Facts, after bool, codes map[int32]bool) (out []Finding) {
	for i := range f.Tick.States {
		s := &f.Tick.States[i]
		var first *tick.CallError
		var count uint64
		for j := range s.Errors.First {
			e := &s.Errors.First[j]
			if !codes[e.Code] {
				continue
			}
			count += e.Count
			if first == nil || e.First < first.First || e.First == first.First && e.Op < first.Op {
				first = e
			}
		}
		if first == nil || f.works(s.PID, first.First, after) || f.Now()-first.First > windowSeconds*1e9 && !f.goesOn(s.PID) {
			continue
		}
		to := f.Now()
		if b := f.Book(s.PID); b != nil && b.Ended != 0 {
			to = b.Ended
		}
		from := max(first.First, f.Now()-windowSeconds*1e9)
		lost := max(to-from, 0)
		out = append(out, Finding{
			PID: s.PID, Op: first.Op, From: from, To: to, Lost: lost, Severity: tick.High,
			Baseline: "calls that succeed",
			Culprits: []tick.Culprit{{What: fmt.Sprintf("%s in %s", first.Name(), first.Op), Lost: time.Duration(lost)}},
			Timeline: []tick.Moment{moment(first.First, "CUDA", "%s fails: %s (%d); %d such failures since", first.Op, first.Name(), first.Code, count)},
		})
	}
	return out
}

// works says whether a process has launched something since a time; with after, in seconds
// that are surely later.
func (f *Facts) works(pid uint32, since int64, after bool) bool {
	b := f.Book(pid)
	if b == nil {
		return false
	}
	for i := range b.Seconds {
		s := &b.Seconds[i]
		if s.To <= since || after && s.From < since+lateCounts {
			continue
		}
		unseen := f.e.lost(pid, s.From, s.To)&govern.LaunchTimes != 0
		for _, o := range s.Ops {
			if unseen && classOf(o.Op) == events.ClassSync && o.Done > o.Errors { // launches may have failed
				return true
			}
			if classOf(o.Op) == events.ClassLaunch && o.NS > 0 && o.Calls > o.Errors { // NS 0: whether they failed is not known
				return true
			}
		}
	}
	return false
}

// goesOn says whether a process has failed calls in its last second.
func (f *Facts) goesOn(pid uint32) bool {
	b := f.Book(pid)
	if b == nil || len(b.Seconds) < 2 || b.Ended != 0 {
		return false
	}
	n := len(b.Seconds)
	return b.Seconds[n-1].Failed > b.Seconds[n-2].Failed
}
