//go:build measure

package ledger

import (
	"slices"
	"testing"
	"time"

	"ingero/internal/testkit"
	"ingero/pkg/events"
)

// Each of a thousand blocked calls has the reason of its wait and its waker. A wake-up belongs to
// the waker, even if the thread moves to another, idle CPU. A wake-up by a timer has no waker: it
// does not belong to the thread that the timer interrupts. Hogs that run during a wake-up wake
// nothing.
func TestReasonsByClocks(t *testing.T) {
	t.Logf("an idle CPU comes %v later than the tolerances have for it", time.Duration(slower()))
	const third = 300 * time.Microsecond
	wants := []wantWait{wantSleep, wantFutex, {[]events.Reason{events.ReasonFile, events.ReasonDisk}, []string{"fdatasync"}, events.FileRegular, false, byAnyone}}
	workloads := []workload{
		{name: "sleep beside a hog", scenario: "sleep", count: 500, each: third, hogs: []string{"spin CPU"}},
		{name: "futex beside a hog", scenario: "futex", count: 500, each: third, hogs: []string{"spin CPU"}},
		{name: "fsync", scenario: "fsync", count: 1500, onDisk: true},
	}
	for _, b := range blocking {
		w := workload{name: b.scenario, scenario: b.scenario, count: 1000, each: third, onDisk: b.onDisk}
		if b.onDisk {
			w.count, w.each = 1500, 0
		}
		wants, workloads = append(wants, b.want), append(workloads, w)
	}
	for i, want := range wants {
		workloads[i].check = want.compare
	}
	for i, r := range observe(t, tracing{}, workloads...) {
		t.Run(r.name, func(t *testing.T) {
			r := judge(t, r)
			judged := wants[i].judged(&collector{TB: t}, r)
			t.Logf("%d calls were surely blocked; %v", judged, r)
			if least := min(r.count, 1000) / 2; judged < least {
				testkit.NeedKernel(t, "a disk that one has to wait for", !r.onDisk)
				t.Errorf("only %d calls were surely blocked, want %d", judged, least)
			}
		})
	}
}

func (want wantWait) compare(t testing.TB, r *run) { want.judged(t, r) }

// judged checks the reasons of blocked calls. It returns how many calls were surely blocked long
// enough for a record.
func (want wantWait) judged(t testing.TB, r *run) (judged int) {
	r.eachCall(func(i int, in []events.Wait) {
		call := &r.truths[i]
		if call.disturbed() {
			return
		}
		in = slices.DeleteFunc(slices.Clone(in), func(w events.Wait) bool { return w.State != events.WaitBlocked })
		for n := range in {
			if what := want.differs(&in[n], r); what != "" {
				t.Errorf("call %d: %s: %+v", i, what, in[n])
			}
		}
		if !surely(call, &r.calls[i]) {
			return
		}
		judged++
		if len(in) == 0 {
			t.Errorf("call %d was blocked for %v and does not say why: in truth %+v, by the ledger %+v",
				i, time.Duration(call.wasBlocked()), *call, callParts(&r.calls[i]))
		}
	})
	return judged
}

// surely reports whether one wait of a call was long enough for a record. If the program does not
// know its blocked time, the clocks' remainder may be time of the hypervisor, which serves the
// device. Then the ledger's own sum decides, which is compared with the clocks for all calls
// together.
func surely(t *truth, c *events.Call) bool {
	if t.blocked < 0 {
		return c.Blocked >= recorded*max(t.blocks, 1)
	}
	return min(t.blocked, t.wall-t.cpu-t.delay) >= recorded+t.late()
}
