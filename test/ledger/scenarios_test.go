//go:build measure

package ledger

import "testing"

// half is a quota of half a CPU.
func half(t testing.TB) quota { return newQuota(t, 10*ms, 20*ms) }

// quarter is a quota of a quarter.
func quarter(t testing.TB) quota { return newQuota(t, 5*ms, 20*ms) }

// lateWake is a thread whose CPU is busy when it wakes, with one that it may not preempt.
func lateWake() workload {
	return workload{name: "woken while a real-time hog runs", scenario: "sleep", calls: 60, each: 3 * ms, hogs: []string{"burst CPU 5000 1000"},
		check: func(o *outcome) []string {
			wrong, _ := o.checkReasons(&timerWait)
			return wrong
		}}
}

// neighbour is a thread with a quota, and a hog without one beside it.
func neighbour() workload {
	return workload{name: "quota and a hog", scenario: "spin", calls: 30, each: 30 * ms, quota: quarter, hogs: []string{"spin CPU"},
		check: (*outcome).checkCharged}
}

// Where the time of a call went, and that of the gap before it, is what the
// thread's own clocks say, and who had the CPU meanwhile what theirs say.
func TestParts(t *testing.T) {
	charged := (*outcome).checkCharged
	for _, o := range run(t, tracing{},
		workload{name: "spin", scenario: "spin", calls: 100, each: 3 * ms},
		workload{name: "sleep", scenario: "sleep", calls: 100, each: 3 * ms},
		workload{name: "gap", scenario: "gap", calls: 100, each: 3 * ms},
		workload{name: "nested", scenario: "nested", calls: 100, each: 2 * ms},
		workload{name: "hog", scenario: "spin", calls: 60, each: 12 * ms, hogs: []string{"spin CPU"}, check: charged},
		workload{name: "two hogs", scenario: "spin", calls: 40, each: 20 * ms, hogs: []string{"spin CPU", "spin CPU"}, check: charged},
		workload{name: "four hogs that roam", scenario: "spin", calls: 40, each: 20 * ms, roam: true,
			hogs: []string{"spin ANY", "spin ANY", "spin ANY", "spin ANY"}, check: (*outcome).checkNames},
		workload{name: "own threads", scenario: "own-hogs", calls: 50, each: 12 * ms, check: charged},
		workload{name: "real-time hog", scenario: "spin", calls: 50, each: 12 * ms, hogs: []string{"burst CPU 2000 2000"}, check: charged},
		lateWake(),
		workload{name: "yield", scenario: "yield", calls: 50, each: 10 * ms, hogs: []string{"spin CPU"}, check: charged},
		workload{name: "sleep beside a hog", scenario: "sleep", calls: 100, each: 5 * ms, hogs: []string{"spin CPU"}},
		workload{name: "quota", scenario: "spin", calls: 30, each: 30 * ms, quota: half},
		neighbour(),
		workload{name: "quota and sleep", scenario: "nested", calls: 30, each: 20 * ms, quota: quarter},
		workload{name: "moved", scenario: "spin", calls: 60, each: 10 * ms,
			hogs: []string{"spin CPU", "spin OTHER"}, meddle: "move TID OTHER CPU 3000", check: (*outcome).checkMoved},
	) {
		t.Run(o.workload.name, func(t *testing.T) { t.Log(judge(t, o)) })
	}
}
