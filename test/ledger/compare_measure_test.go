//go:build measure

package ledger

import (
	"fmt"
	"slices"
	"time"

	"ingero/pkg/events"
)

// switches is how often the thread left the CPU.
func (t *truth) switches() int64 { return t.blocks + t.preemptions }

// disturbed tells that there is no truth to compare with: the kernel did not show
// all that happened; or the clocks contradict each other, since the hypervisor took
// the CPU or the thread lost it between two readings; or it lost the CPU between a
// reading and the call, so that the two are not of the same time.
func (t *truth) disturbed() bool {
	const short = 150_000
	if t.left != t.switches() || t.came != t.switches() || t.woken < t.blocks {
		return true
	}
	return t.delay < t.throttled-clockSlack || t.margin > short || t.aside > short || abs(t.unexplained(), 0) > t.clocks()
}

// unexplained is what the clocks leave of a call whose blocked time is known.
func (t *truth) unexplained() int64 {
	if t.blocked < 0 {
		return 0
	}
	return t.wall - t.cpu - t.stolen - t.delay - t.blocked
}

// clocks is that of a call.
func (t *truth) clocks() int64 { return clockSlack + t.late() }

// late is how far the clocks may be apart for the thread's switches.
func (t *truth) late() int64 { return (slower() + perSwitch) * t.switches() }

// explained tells whether most calls can be judged with what the hypervisor took from the
// thread while it was on its CPU, which is all that its clocks leave: the kernel's account
// of that has to be as much, in which a step is 10 ms.
func (o *outcome) explained() bool {
	const step = 10 * time.Millisecond
	var all time.Duration
	add := func(of []truth) {
		for i := range of {
			if t := &of[i]; t.unexplained() > t.clocks() {
				t.stolen = t.unexplained()
				all += time.Duration(t.stolen)
			}
		}
	}
	add(o.truths)
	add(o.gaps)
	outer := all
	add(o.inner)
	return outer <= o.stolen+2*step && o.consistent()
}

// wasBlocked is how long the thread was blocked.
func (t *truth) wasBlocked() int64 {
	if t.blocked < 0 {
		return t.wall - t.cpu - t.delay
	}
	return t.blocked
}

// slack is the error that is allowed in a part of this call.
func (t *truth) slack(part int64) int64 {
	return max(tolerance, part/50) + t.late()
}

func gapParts(c *events.Call) parts {
	return parts{c.Gap, c.GapOnCPU, c.GapRunnable, c.GapThrottled, c.GapBlocked}
}

// median of values, which it sorts.
func median(v []int64) int64 {
	slices.Sort(v)
	return v[len(v)/2]
}

// abs is the distance of two times.

// compare says where the median record of calls or gaps differs by too much from
// the truth.
func compare(what string, got []parts, want []truth) (wrong []string) {
	for i, name := range partNames {
		var off, allowed []int64
		for n := range got {
			t := want[n].parts()
			g, w := got[n].list()[i], t.list()[i]
			off, allowed = append(off, abs(g, w)), append(allowed, want[n].slack(w))
		}
		if m, limit := median(off), median(allowed); m > limit {
			wrong = append(wrong, fmt.Sprintf("%s: the %s time is off by %v in the median of %d, more than %v",
				what, name, time.Duration(m), len(got), time.Duration(limit)))
		}
	}
	return wrong
}

// plus is both times, one after the other.
func (p parts) plus(q parts) parts {
	return parts{p.wall + q.wall, p.cpu + q.cpu, p.runnable + q.runnable, p.throttled + q.throttled, p.blocked + q.blocked}
}

// compareSums says where records of calls with the gaps before them sum to
// something else than the truth. A call and its gap are one here: where the
// hypervisor stops the machine between the program's reading of its clock and the
// probe's, the one has what the other lacks.
func compareSums(calls []events.Call, truths, gaps []truth) (wrong []string) {
	var got, want parts
	var allowed [len(partNames)]int64
	n := 0
	for i := range calls {
		if truths[i].disturbed() || gaps[i].disturbed() || gaps[i].wall <= 0 {
			continue
		}
		n++
		t := truths[i].parts().plus(gaps[i].parts())
		got, want = got.plus(callParts(&calls[i]).plus(gapParts(&calls[i]))), want.plus(t)
		for k, w := range t.list() {
			allowed[k] += truths[i].slack(w) + gaps[i].late()
		}
	}
	g, w := got.list(), want.list()
	for k, name := range partNames {
		if abs(g[k], w[k]) > allowed[k] {
			wrong = append(wrong, fmt.Sprintf("the %s times of %d calls and gaps sum to %v, in truth to %v",
				name, n, time.Duration(g[k]), time.Duration(w[k])))
		}
	}
	return wrong
}

func (t *truth) parts() parts {
	return parts{t.wall, t.cpu, max(t.delay-t.throttled, 0) + t.stolen, t.throttled, t.wasBlocked()}
}

func callParts(c *events.Call) parts {
	return parts{c.Duration, c.OnCPU, c.Runnable, c.Throttled, c.Blocked}
}

var partNames = [5]string{"duration", "on-CPU", "runnable", "throttled", "blocked"}

// clockSlack is how far clocks that do not contradict each other are apart.
const clockSlack = 40_000

const (
	// tolerance is the error that is allowed in any part of a call: the wake-up of
	// a CPU and the cost of the probes are in it. Longer parts may be off by 2 %.
	tolerance = 50_000
	// perSwitch is how far the scheduler's clock may be behind at each switch: it is
	// as of the interrupt that brought it about.
	perSwitch = 8_000
)

// looks is how often it is looked in a call what the hypervisor took, but for switches:
// at the beginning and the end of one inside, and at its own end.
const looks = 3
