//go:build measure

package ledger

import (
	"slices"
	"testing"
	"time"

	"ingero/pkg/events"
)

// quarter is a quota of a quarter of a CPU.
var quarter = quota{5 * ms, 20 * ms}

// Workloads that the mutations use too.
var (
	// A thread wakes while a process that it may not preempt has its CPU.
	lateWake = workload{name: "woken while a real-time hog runs", scenario: "sleep", count: 60, each: 3 * ms,
		hogs: []string{"burst CPU 5000 1000"}, check: wantSleep.compare}
	// A thread with a quota, beside a hog without one.
	neighbour = workload{name: "quota and a hog", scenario: "spin", count: 30, each: 30 * ms, quota: quarter,
		hogs: []string{"spin CPU"}, check: compareCharged}
)

// The parts of a call and of the gap before it agree with the thread's own clocks, and competing
// threads are charged with the time of theirs.
func TestPartsByClocks(t *testing.T) {
	for _, r := range observe(t, tracing{},
		workload{name: "spin", scenario: "spin", count: 100, each: 3 * ms},
		workload{name: "sleep", scenario: "sleep", count: 100, each: 3 * ms},
		workload{name: "gap", scenario: "gap", count: 100, each: 3 * ms},
		workload{name: "nested", scenario: "nested", count: 100, each: 2 * ms},
		workload{name: "hog", scenario: "spin", count: 60, each: 12 * ms, hogs: []string{"spin CPU"}, check: compareCharged},
		workload{name: "two hogs", scenario: "spin", count: 40, each: 20 * ms, hogs: []string{"spin CPU", "spin CPU"}, check: compareCharged},
		workload{name: "four hogs that roam", scenario: "spin", count: 40, each: 20 * ms, roam: true,
			hogs: []string{"spin ANY", "spin ANY", "spin ANY", "spin ANY"}, check: func(t testing.TB, r *run) { r.names(t) }},
		workload{name: "own threads", scenario: "own-hogs", count: 50, each: 12 * ms, check: compareCharged},
		workload{name: "real-time hog", scenario: "spin", count: 50, each: 12 * ms, hogs: []string{"burst CPU 2000 2000"}, check: compareCharged},
		lateWake,
		workload{name: "yield", scenario: "yield", count: 50, each: 10 * ms, hogs: []string{"spin CPU"}, check: compareCharged},
		workload{name: "sleep beside a hog", scenario: "sleep", count: 100, each: 5 * ms, hogs: []string{"spin CPU"}},
		workload{name: "quota", scenario: "spin", count: 30, each: 30 * ms, quota: quota{10 * ms, 20 * ms}},
		neighbour,
		workload{name: "quota and sleep", scenario: "nested", count: 30, each: 20 * ms, quota: quarter},
		workload{name: "moved", scenario: "spin", count: 60, each: 10 * ms,
			hogs: []string{"spin CPU", "spin OTHER"}, meddle: "move TID OTHER CPU 3000", check: compareMoved},
		workload{name: "a waker that sleeps", scenario: "sleepy-waker", count: 500, each: 400 * time.Microsecond, check: compareSleeps},
	) {
		t.Run(r.name, func(t *testing.T) { t.Log(judge(t, r)) })
	}
}

// taken returns the CPU time of other threads while the thread was runnable.
func taken(waits []events.Wait, by func(*events.Wait) bool) (ns int64) {
	for i := range waits {
		if waits[i].State == events.WaitRunnable && by(&waits[i]) {
			ns += waits[i].Taken
		}
	}
	return ns
}

// compareCharged checks the charges of threads on the thread's CPU against their own clocks. Their
// time while the quota throttled the thread is not charged, and cannot exceed the throttled time.
// If too many threads had a turn to keep all names, the rest may have been a hog's.
func compareCharged(t testing.TB, r *run) {
	charged, most, least := make([]int64, len(r.culprits)), make([]int64, len(r.culprits)), make([]int64, len(r.culprits))
	var nameless int64
	r.eachCall(func(i int, waits []events.Wait) {
		in := &r.truths[i]
		if in.disturbed() {
			return
		}
		nameless += taken(waits, func(w *events.Wait) bool { return w.Flags&events.WaitOthers != 0 })
		for n, who := range r.culprits {
			charged[n] += taken(waits, func(w *events.Wait) bool { return w.Who.TID == who.TID })
			least[n] += in.hog[n] - in.throttled
			most[n] += min(in.hog[n], in.delay-in.throttled)
		}
	})
	if all := int64(r.count) * int64(r.each); nameless > all/4 {
		t.Errorf("%v of the CPU's time have no name", time.Duration(nameless))
	}
	for n, who := range r.culprits {
		if charged[n]+nameless < least[n]-most[n]*3/100 || charged[n] > most[n]+most[n]*3/100 {
			t.Errorf("thread %d is charged with %v, it used between %v and %v (%v have no name)",
				who.TID, time.Duration(charged[n]), time.Duration(least[n]), time.Duration(most[n]), time.Duration(nameless))
		}
	}
	r.names(t)
}

// compareMoved checks that a thread moved during a wait continues to wait for the other CPU, and
// that each CPU's hog is charged with its own part.
func compareMoved(t testing.TB, r *run) {
	moves := 0
	waits := slices.DeleteFunc(r.waitsOf(r.pid), func(w events.Wait) bool { return w.State != events.WaitRunnable })
	for i, w := range waits {
		if w.Flags&events.WaitMoved == 0 || w.Flags&events.WaitPrevious != 0 {
			continue
		}
		moves++
		next := slices.IndexFunc(waits[i+1:], func(x events.Wait) bool { return x.Flags&events.WaitPrevious == 0 })
		if next < 0 {
			continue
		}
		// A remainder too short for a record is only in the sums.
		if after := waits[i+1+next]; distance(after.Start, w.End()) < recorded && after.CPU == w.CPU {
			t.Errorf("moved away from CPU %d, and waits on for CPU %d", w.CPU, after.CPU)
		}
	}
	if hogged := r.hogged(t); moves < 10 || hogged < 10 {
		t.Errorf("%d waits were moved, %d name a hog, want 10 of each", moves, hogged)
	}
	r.names(t)
}

// compareSleeps checks that nearly all sleeps of the waker have records, and that its account has
// all of them.
func compareSleeps(t testing.TB, r *run) {
	enrolled(t, r)
	th, _ := r.thread(r.helper)
	sleeps := len(r.sleeps())
	if sleeps < r.count*4/5 {
		t.Errorf("%d sleeps of the waker are recorded, want nearly %d", sleeps, r.count)
	}
	if least := r.each * time.Duration(sleeps); time.Duration(th.Between.Blocked) < least {
		t.Errorf("the waker was blocked for %v, want at least %v", time.Duration(th.Between.Blocked), least)
	}
}
