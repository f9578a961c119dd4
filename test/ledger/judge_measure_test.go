//go:build measure

package ledger

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"ingero/internal/testkit"
	"ingero/pkg/events"
)

// attempts is how often a workload is run at most until it can be judged.
const attempts = 5

// judge checks what holds for each workload, and what its own check says. A measurement
// that is wrong while the hypervisor kept the CPUs from the machine tells nothing of the
// ledger: the workload is run again then. What must hold without any clock stands.
func judge(t testing.TB, o *outcome) *outcome {
	t.Helper()
	o = again(t, o, func(o *outcome) string {
		if wrong := o.faults(); len(wrong) > 0 && len(o.broken()) == 0 && o.hampered() {
			return fmt.Sprintf("the hypervisor kept CPUs from the machine for %v in %v, and %s", o.stolen, o.took.Round(time.Millisecond), wrong[0])
		}
		return ""
	})
	o.measured(t)
	report(t, o.faults())
	return o
}

// measured reports by how much the records of calls differ from the truth, in the median.
func (o *outcome) measured(t testing.TB) {
	calls, _ := o.own()
	if len(calls) != len(o.truths) {
		return
	}
	var off [5][]int64
	for i := range calls {
		if o.truths[i].disturbed() || o.truths[i].wall == 0 {
			continue
		}
		want, got := o.truths[i].parts(), callParts(&calls[i])
		for n := range off {
			off[n] = append(off[n], abs(want.list()[n], got.list()[n]))
		}
	}
	for n, name := range partNames {
		if len(off[n]) > 0 {
			testkit.Measured(t, strings.ReplaceAll(name, " ", "-")+"-off-median", float64(median(off[n])), "ns", testkit.Lower)
		}
	}
}

// again is the outcome of the workload, which is run again for as long as most of its
// truth is not to be had, or unfit says why it tells nothing.
func again(t testing.TB, o *outcome, unfit func(*outcome) string) *outcome {
	t.Helper()
	for i := 1; ; i++ {
		why := "most of the readings contradict each other"
		if o.consistent() || o.explained() {
			why = unfit(o)
		}
		switch {
		case why == "":
			return o
		case i == attempts:
			t.Fatalf("%s: the same %d times, on a machine that is disturbed", why, attempts)
		}
		t.Logf("it is run again, as the machine is disturbed: %s", why)
		testkit.Settle(t)
		o = run(t, o.how, *o.workload)[0]
	}
}

// hampered tells whether the hypervisor had more than a hundredth of what the program
// could have had of one CPU.
func (o *outcome) hampered() bool { return o.stolen > o.took/100 }

// faults is all that is wrong.
func (o *outcome) faults() []string {
	wrong := o.verify()
	if o.workload.check != nil {
		wrong = append(wrong, o.workload.check(o)...)
	}
	return wrong
}

// consistent tells whether most calls can be judged.
func (o *outcome) consistent() bool {
	good := 0
	for i := range o.truths {
		if !o.truths[i].disturbed() {
			good++
		}
	}
	return 2*good > len(o.truths)
}

// verify compares what the session saw with what the program knows, and returns
// what is wrong.
func (o *outcome) verify() (wrong []string) {
	if wrong = o.broken(); len(wrong) > 0 {
		return wrong
	}
	calls, inner := o.own()
	wrong = append(wrong, compareCalls("calls", calls, o.truths, callParts)...)
	wrong = append(wrong, compareCalls("inner calls", inner, o.inner, callParts)...)
	wrong = append(wrong, compareCalls("gaps", calls, o.gaps, gapParts)...)
	wrong = append(wrong, compareSums(calls, o.truths, o.gaps)...)
	return append(wrong, o.checkWaits(calls, o.waitsOf(o.pid))...)
}

// compareCalls compares records with the truth where there is one.
func compareCalls(what string, calls []events.Call, truths []truth, of func(*events.Call) parts) []string {
	var got []parts
	var want []truth
	for i := range calls {
		if t := &truths[i]; !t.disturbed() && t.wall > 0 {
			got, want = append(got, of(&calls[i])), append(want, *t)
		}
	}
	if len(got) == 0 {
		return nil
	}
	return compare(what, got, want)
}

// within tells whether a wait lies in a call: it begins in it, and most of it is
// not before it. The cost of the probes, which the agent subtracts from a call,
// may make the call end a little before the wait.
func within(c *events.Call, w *events.Wait) bool {
	return w.Start+w.Duration/2 >= c.Start && w.Start < c.End()
}

// eachCall calls take for each call with the waits inside it. Both are in order
// of time.
func eachCall(calls []events.Call, waits []events.Wait, take func(i int, in []events.Wait)) {
	for i := range calls {
		for len(waits) > 0 && waits[0].Start+waits[0].Duration/2 < calls[i].Start {
			waits = waits[1:]
		}
		n := 0
		for n < len(waits) && within(&calls[i], &waits[n]) {
			n++
		}
		take(i, waits[:n])
		waits = waits[n:]
	}
}

// checkWaits: the waits in a call are the parts of it, but for short ones.
func (o *outcome) checkWaits(calls []events.Call, waits []events.Wait) (wrong []string) {
	eachCall(calls, waits, func(i int, in []events.Wait) {
		if o.truths[i].disturbed() {
			return
		}
		var sum [events.WaitBlocked + 1]int64
		for _, w := range in {
			if w.Flags&events.WaitPrevious == 0 {
				sum[w.State] += w.Duration
			}
		}
		c := &calls[i]
		for state, part := range map[events.WaitState]int64{events.WaitRunnable: c.Runnable, events.WaitThrottled: c.Throttled, events.WaitBlocked: c.Blocked} {
			// Of a call, but not of its waits, the cost of the probes is taken.
			short := o.truths[i].switches() * int64(recorded)
			if o.guest && state == events.WaitRunnable {
				short += looks * int64(recorded)
			}
			if o.workload.roam || o.workload.meddle != "" {
				short *= 3 // one that is moved is in pieces
			}
			if sum[state] > part+int64(recorded) || sum[state] < part-short {
				wrong = append(wrong, fmt.Sprintf("call %d was %v for %v, its waits sum to %v", i, state, time.Duration(part), time.Duration(sum[state])))
			}
		}
	})
	return wrong
}

// taken is what threads had of the CPU while the thread was runnable.
func taken(waits []events.Wait, by func(*events.Wait) bool) (ns int64) {
	for i := range waits {
		if waits[i].State == events.WaitRunnable && by(&waits[i]) {
			ns += waits[i].Taken
		}
	}
	return ns
}

// String says how the truth and the ledger compare, for people.
func (o *outcome) String() string {
	calls, _ := o.own()
	var want, got [5][]int64
	for i := range calls {
		w, g := o.truths[i].parts(), callParts(&calls[i])
		for n := range want {
			want[n], got[n] = append(want[n], w.list()[n]), append(got[n], g.list()[n])
		}
	}
	text := "median of a call, in truth and by the ledger:"
	for n, name := range partNames {
		text += fmt.Sprintf(" %s %v %v;", name, time.Duration(median(want[n])), time.Duration(median(got[n])))
	}
	return text
}
