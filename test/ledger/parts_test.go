package ledger

import "testing"

// ways returns the ways to spend calls and gaps.
func ways() []workload {
	return []workload{
		{name: "sleep", scenario: "sleep", count: 10, each: 30 * ms, check: blockedAtLeast(30 * ms)},
		{name: "on-CPU", scenario: "work", count: 10, each: 10 * ms, check: onCPUAtLeast(10 * ms)},
		{name: "sleep between calls", scenario: "gap", count: 10, each: 20 * ms, check: gapBlocked},
		{name: "a call inside a call", scenario: "nested", count: 5, each: 20 * ms, check: nested},
		{name: "many short calls", scenario: "nested", count: 100, each: ms, check: nested},
		{name: "beside a process", scenario: "work", count: 10, each: 10 * ms, hogs: []string{"spin CPU"}, check: charged},
		{name: "beside its own threads", scenario: "own-hogs", count: 20, each: 10 * ms, check: charged},
		{name: "a real-time process has the CPU", scenario: "work", count: 10, each: 10 * ms, hogs: []string{"burst CPU 5000 2000"}, check: charged},
		{name: "woken while a real-time process runs", scenario: "sleep", count: 40, each: 3 * ms, hogs: []string{"burst CPU 5000 1000"}, check: charged},
		{name: "beside a process of many threads", scenario: "work", count: 10, each: 10 * ms, hogs: []string{"crowd CPU 100 6400"}, check: named},
		// The hog is on another CPU. It is there because the test checks for real-time priority
		// only with a hog.
		{name: "beside many threads of its own", scenario: "own-crowd", count: 10, each: 10 * ms, hogs: []string{"burst OTHER 100 50000"}, check: ownCrowd},
		{name: "a CPU quota", scenario: "work", count: 5, each: 4 * ms, quota: quota{2 * ms, 100 * ms}, check: throttled},
		{name: "moved between CPUs", scenario: "work", count: 100, each: 10 * ms,
			hogs: []string{"burst CPU 3000 3000", "burst OTHER 3000 3000"}, meddle: "move TID OTHER CPU 3000", check: moved},
	}
}

// The parts of calls and gaps lie between the bounds of the thread's own clocks, and competing
// threads are charged with the time of theirs.
func TestParts(t *testing.T) { checkExactly(t, tracing{raw: true}, ways()...) }

// The bounds also hold if the probes' cost is subtracted from the durations.
func TestPartsLessProbes(t *testing.T) { checkExactly(t, tracing{}, ways()...) }
