package ledger

import (
	"fmt"
	"slices"
	"testing"

	"ingero/pkg/events"
)

// What holds whatever the machine does: there is a record of each call, its parts and those
// of the gap before it add up to its duration and the gap, the records sum to the kernel's own
// account, waits are charged in full, and nothing is lost.
func TestSumsAreExact(t *testing.T) {
	for _, o := range run(t, tracing{},
		workload{name: "spin", scenario: "spin", calls: 100, each: ms},
		workload{name: "sleep", scenario: "sleep", calls: 100, each: ms},
		workload{name: "gap", scenario: "gap", calls: 100, each: ms},
		workload{name: "nested", scenario: "nested", calls: 100, each: ms},
		workload{name: "beside a hog", scenario: "spin", calls: 20, each: 10 * ms, hogs: []string{"spin CPU"}, check: (*outcome).checkNamed},
		workload{name: "own threads", scenario: "own-hogs", calls: 20, each: 10 * ms},
		workload{name: "quota", scenario: "spin", calls: 10, each: 30 * ms, check: (*outcome).checkThrottled,
			quota: func(t testing.TB) quota { return newQuota(t, 10*ms, 20*ms) }},
	) {
		t.Run(o.workload.name, func(t *testing.T) {
			report(t, o.broken())
			if o.workload.check != nil {
				report(t, o.workload.check(o))
			}
		})
	}
}

// checkNamed: who had the CPU while the thread was ready to run is named.
func (o *outcome) checkNamed() []string {
	if !slices.ContainsFunc(o.waitsOf(o.pid), func(w events.Wait) bool {
		return w.State == events.WaitRunnable && slices.Contains(o.culprits, w.Who.PID)
	}) {
		return []string{"no wait names the hog"}
	}
	return nil
}

// checkThrottled: a call that the quota's own account says was throttled is.
func (o *outcome) checkThrottled() (wrong []string) {
	var sum int64
	for i := range o.truths {
		sum += o.truths[i].throttled
	}
	calls, _ := o.own()
	if sum > int64(20*ms) && !slices.ContainsFunc(calls, func(c events.Call) bool { return c.Throttled > 0 }) {
		return []string{fmt.Sprintf("no call was throttled, by the quota's account they were for %d ns", sum)}
	}
	return nil
}
