//go:build measure

package ledger

import (
	"fmt"
	"testing"
	"time"

	"ingero/internal/testkit"
)

// attempts is the maximum number of runs of a workload until it can be judged.
const attempts = 5

// collector is a test that collects its errors instead of reporting them.
type collector struct {
	testing.TB
	wrong []string
}

func (c *collector) Helper() {}

func (c *collector) Error(args ...any) { c.wrong = append(c.wrong, fmt.Sprint(args...)) }

func (c *collector) Errorf(format string, args ...any) {
	c.wrong = append(c.wrong, fmt.Sprintf(format, args...))
}

// collect returns the errors of checks.
func collect(t testing.TB, checks ...func(testing.TB)) []string {
	c := &collector{TB: t}
	for _, check := range checks {
		check(c)
	}
	return c.wrong
}

// observe runs trace with a witness.
func observe(t testing.TB, how tracing, workloads ...workload) []*run {
	t.Helper()
	how.witness = newWitness(t)
	return trace(t, how, workloads...)
}

// judge checks what holds for each workload, and runs the workload's own check. If a measurement
// fails while the hypervisor stole CPU time, the workload runs again, since the failure says
// nothing about the ledger. The checks that need no clock are never repeated.
func judge(t testing.TB, r *run) *run {
	t.Helper()
	r = again(t, r, func(r *run) string {
		if wrong := r.faults(t); len(wrong) > 0 && len(collect(t, r.exact)) == 0 && r.hampered() {
			return fmt.Sprintf("the hypervisor kept CPUs from the machine for %v, and %s", r.stolen, wrong[0])
		}
		return ""
	})
	off, _, n := r.medians(false, r.truths, callParts)
	for k, name := range partNames {
		if n > 0 {
			testkit.Measured(t, name+"-off-median", float64(off[k]), "ns", testkit.Lower)
		}
	}
	for i, wrong := range r.faults(t) {
		if i == 5 {
			t.Error("and more")
			break
		}
		t.Error(wrong)
	}
	return r
}

// faults returns all errors.
func (r *run) faults(t testing.TB) []string {
	if wrong := collect(t, r.exact); len(wrong) > 0 {
		return wrong
	}
	return collect(t, r.compare, func(t testing.TB) {
		if r.check != nil {
			r.check(t, r)
		}
	})
}

// again returns a run of the workload. It repeats the run while most of its truth is missing, or
// unfit gives a reason against it.
func again(t testing.TB, r *run, unfit func(*run) string) *run {
	t.Helper()
	for i := 1; ; i++ {
		why := "most of the readings contradict each other"
		if r.consistent() || r.explained() {
			why = unfit(r)
		}
		switch {
		case why == "":
			return r
		case i == attempts:
			t.Fatalf("%s: the same %d times, on a machine that is disturbed", why, attempts)
		}
		t.Logf("it is run again, as the machine is disturbed: %s", why)
		testkit.Settle(t)
		r = observe(t, r.how, *r.workload)[0]
	}
}

// hampered reports whether the hypervisor stole more than a hundredth of the program's share of one
// CPU.
func (r *run) hampered() bool {
	var took int64
	for i := range r.truths {
		if !r.truths[i].inner {
			took += r.truths[i].wall + r.gaps[i].wall
		}
	}
	return int64(r.stolen) > took/100
}

// consistent reports whether most calls can be judged.
func (r *run) consistent() bool {
	good, all := 0, 0
	for i := range r.truths {
		if t := &r.truths[i]; !t.inner {
			all++
			if !t.disturbed() {
				good++
			}
		}
	}
	return 2*good > all
}

// explained reports whether most calls can be judged if stolen on-CPU time accounts for the
// remainder of the thread's clocks. The kernel's account of stolen time, in steps of 10 ms, must be
// as large.
func (r *run) explained() bool {
	const step = 10 * ms
	var outer time.Duration
	for i := range r.truths {
		for _, t := range []*truth{&r.truths[i], &r.gaps[i]} {
			if rest := t.unexplained(); rest > t.clocks() {
				t.stolen = rest
				if !t.inner {
					outer += time.Duration(rest)
				}
			}
		}
	}
	return outer <= r.stolen+2*step && r.consistent()
}
