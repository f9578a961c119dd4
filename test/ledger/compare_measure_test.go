//go:build measure

package ledger

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"ingero/internal/testkit"
	"ingero/pkg/events"
)

const (
	// clockSlack is how far consistent clocks may differ, in ns.
	clockSlack = 40_000
	// tolerance is the allowed error in any part of a call, in ns. It includes the wake-up of a CPU
	// and the cost of the probes. Longer parts may be off by 2 %.
	tolerance = 50_000
	// perSwitch is how far the scheduler's clock may lag at each switch, in ns: it is as old as the
	// interrupt that caused the switch.
	perSwitch = 8_000
	// looks is how often the programs check stolen time in a call, besides switches: at the
	// beginning and end of a nested call, and at its own end.
	looks = 3
)

// parts are the times of a call or a gap, in ns, in the order of partNames.
type parts [5]int64

var partNames = [len(parts{})]string{"duration", "on-CPU", "runnable", "throttled", "blocked"}

func callParts(c *events.Call) parts {
	return parts{c.Duration, c.OnCPU, c.Runnable, c.Throttled, c.Blocked}
}

func gapParts(c *events.Call) parts {
	return parts{c.Gap, c.GapOnCPU, c.GapRunnable, c.GapThrottled, c.GapBlocked}
}

func (t *truth) parts() parts {
	return parts{t.wall, t.cpu, max(t.delay-t.throttled, 0) + t.stolen, t.throttled, t.wasBlocked()}
}

// wasBlocked returns the thread's blocked time.
func (t *truth) wasBlocked() int64 {
	if t.blocked < 0 {
		return t.wall - t.cpu - t.delay
	}
	return t.blocked
}

// disturbed reports whether a call has no usable truth. Either the kernel did not show all switches
// and wake-ups, or the clocks contradict each other, since the CPU was stolen or lost between two
// readings, or the thread lost the CPU between a reading and the call.
func (t *truth) disturbed() bool {
	const short = 150_000
	if t.left != t.switches() || t.came != t.switches() || t.woken < t.blocks {
		return true
	}
	return t.delay < t.throttled-clockSlack || t.margin > short || t.aside > short || distance(t.unexplained(), 0) > t.clocks()
}

// unexplained returns the remainder of the clocks for a call of known blocked time.
func (t *truth) unexplained() int64 {
	if t.blocked < 0 {
		return 0
	}
	return t.wall - t.cpu - t.stolen - t.delay - t.blocked
}

// clocks returns how far the clocks of a call may differ.
func (t *truth) clocks() int64 { return clockSlack + t.late() }

// late returns how far the clocks may differ because of the thread's switches.
func (t *truth) late() int64 { return (slower() + perSwitch) * t.switches() }

// slack returns the allowed error in a part of this call.
func (t *truth) slack(part int64) int64 { return max(tolerance, part/50) + t.late() }

// median returns the median of values, which it sorts.
func median(v []int64) int64 {
	slices.Sort(v)
	return v[len(v)/2]
}

// medians returns the median error of the records of calls or gaps, and the allowed median error,
// over the n records that can be compared.
func (r *run) medians(inner bool, truths []truth, of func(*events.Call) parts) (off, allowed parts, n int) {
	var offs, limits [len(parts{})][]int64
	for i := range truths {
		t := &truths[i]
		if r.truths[i].inner != inner || t.disturbed() || t.wall <= 0 {
			continue
		}
		n++
		got, want := of(&r.calls[i]), t.parts()
		for k := range want {
			offs[k], limits[k] = append(offs[k], distance(got[k], want[k])), append(limits[k], t.slack(want[k]))
		}
	}
	for k := range offs {
		if n > 0 {
			off[k], allowed[k] = median(offs[k]), median(limits[k])
		}
	}
	return off, allowed, n
}

// compare checks the session's records against the program's own.
func (r *run) compare(t testing.TB) {
	t.Helper()
	for _, c := range []struct {
		what   string
		inner  bool
		truths []truth
		of     func(*events.Call) parts
	}{{"calls", false, r.truths, callParts}, {"inner calls", true, r.truths, callParts}, {"gaps", false, r.gaps, gapParts}} {
		off, allowed, n := r.medians(c.inner, c.truths, c.of)
		for k, name := range partNames {
			if off[k] > allowed[k] {
				t.Errorf("%s: the %s time is off by %v in the median of %d, more than %v",
					c.what, name, time.Duration(off[k]), n, time.Duration(allowed[k]))
			}
		}
	}
	r.compareSums(t)
	r.compareWaits(t)
}

// compareSums checks the sums of calls and the gaps before them. A call and its gap count as one
// here: if the hypervisor stops the machine between the program's reading and the probe's, time
// moves from one to the other.
func (r *run) compareSums(t testing.TB) {
	t.Helper()
	var got, want, allowed parts
	n := 0
	for i := range r.calls {
		in, gap := &r.truths[i], &r.gaps[i]
		if in.disturbed() || gap.disturbed() || gap.wall <= 0 {
			continue
		}
		n++
		for k := range got {
			w := in.parts()[k] + gap.parts()[k]
			got[k] += callParts(&r.calls[i])[k] + gapParts(&r.calls[i])[k]
			want[k] += w
			allowed[k] += in.slack(w) + gap.late()
		}
	}
	for k, name := range partNames {
		if distance(got[k], want[k]) > allowed[k] {
			t.Errorf("the %s times of %d calls and gaps sum to %v, in truth to %v", name, n, time.Duration(got[k]), time.Duration(want[k]))
		}
	}
}

// compareWaits checks that the waits in a call add up to its parts, except short waits.
func (r *run) compareWaits(t testing.TB) {
	t.Helper()
	guest := testkit.Stolen(t) > 0
	r.eachCall(func(i int, in []events.Wait) {
		if r.truths[i].disturbed() {
			return
		}
		var sum [events.WaitBlocked + 1]int64
		for _, w := range in {
			if w.Flags&events.WaitPrevious == 0 {
				sum[w.State] += w.Duration
			}
		}
		c := &r.calls[i]
		for state, part := range map[events.WaitState]int64{events.WaitRunnable: c.Runnable, events.WaitThrottled: c.Throttled, events.WaitBlocked: c.Blocked} {
			short := r.truths[i].switches() * recorded
			if guest && state == events.WaitRunnable {
				short += looks * recorded
			}
			if r.roam || r.meddle != "" {
				short *= 3 // a wait that moves is split
			}
			// The probes' cost is subtracted from the call but not from its waits.
			if sum[state] > part+recorded || sum[state] < part-short {
				t.Errorf("call %d was %v for %v, its waits sum to %v", i, state, time.Duration(part), time.Duration(sum[state]))
			}
		}
	})
}

// String shows the truth and the ledger side by side.
func (r *run) String() string {
	var want, got [len(parts{})][]int64
	for i := range r.calls {
		if r.truths[i].inner {
			continue
		}
		for k := range want {
			want[k], got[k] = append(want[k], r.truths[i].parts()[k]), append(got[k], callParts(&r.calls[i])[k])
		}
	}
	text := "median of a call, in truth and by the ledger:"
	for k, name := range partNames {
		text += fmt.Sprintf(" %s %v %v;", name, time.Duration(median(want[k])), time.Duration(median(got[k])))
	}
	return text
}
