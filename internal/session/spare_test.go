package session_test

import (
	"fmt"
	"os/exec"
	"testing"
	"time"

	"ingero/internal/probes"
	"ingero/internal/session"
	"ingero/internal/testkit"
	"ingero/pkg/events"
)

// hasty is a clock that goes twenty times as fast as others.
type hasty struct{ start time.Time }

func (h hasty) Now() time.Time                         { return h.start.Add(20 * time.Since(h.start)) }
func (h hasty) After(d time.Duration) <-chan time.Time { return time.After(d / 20) }

// counted tells whether the last tick has a traced process whose launches are
// counted only.
func (c *collector) counted() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.last != nil && len(c.last.Processes) > 0 && c.last.Processes[0].Counted
}

// A process with many launches is spared their timing, and has it back when it has
// cooled: each launch is counted, and those that were timed alone have durations.
func TestLaunchesAreSpared(t *testing.T) {
	testkit.NeedBPF(t)
	op, ok := events.OpByName("cudaLaunchKernel")
	if !ok {
		t.Fatal("no such operation")
	}
	const first, last = 10, 100 // launches: so few are no burden; more may be one before they end
	dir := t.TempDir()
	gcc(t, "-o", dir+"/bursts", "testdata/bursts.c", "-ldl")
	gcc(t, "-shared", "-fPIC", "-o", dir+"/libcudart.so.12", "testdata/launch.c")
	for _, mode := range modes {
		t.Run(string(mode), func(t *testing.T) {
			child := testkit.Start(t, exec.Command(dir+"/bursts", dir+"/libcudart.so.12"))
			child.Line("ready")
			r := beginWith(t, session.LiveOptions{Select: pids(child), ProbeBudget: 0.001,
				Probes: probes.Options{Mode: mode, Rows: []events.Row{*op.Row()}}},
				session.Config{Clock: hasty{time.Now()}})
			made := uint64(0)
			burst := func(n int) {
				child.Say(fmt.Sprint(n))
				child.Line("done")
				made += uint64(n)
			}
			burst(first)
			testkit.Eventually(t, "launches that are counted only", func() bool { burst(2000); return r.counted() })
			for range 5 {
				burst(1000)
			}
			testkit.Eventually(t, "launches that are timed again", func() bool { return !r.counted() })
			burst(last)
			child.CloseStdin()
			if err := child.Wait(); err != nil {
				t.Fatal(err)
			}
			r.end(t)
			s := sum(r.last, "cudaLaunchKernel")
			if s.Calls != made || s.Done+s.Unmeasured != made || s.Unmeasured < 5000 || s.Done < first+last {
				t.Errorf("%d calls, %d timed, %d counted only; want %d, of which the first %d and the last %d timed, and 5000 counted only", s.Calls, s.Done, s.Unmeasured, made, first, last)
			}
			if n := r.last.Ops[0].Dur.Count(); n != s.Done {
				t.Errorf("%d durations of %d calls that were timed", n, s.Done)
			}
			if !r.reported("launches-counted") || !r.reported("launches-timed") {
				t.Errorf("the switches are not told: %+v", r.last.Reports)
			}
		})
	}
}

// Without a budget nothing is spared.
func TestNoBudget(t *testing.T) {
	testkit.NeedBPF(t)
	op, _ := events.OpByName("cudaLaunchKernel")
	dir := t.TempDir()
	gcc(t, "-o", dir+"/bursts", "testdata/bursts.c", "-ldl")
	gcc(t, "-shared", "-fPIC", "-o", dir+"/libcudart.so.12", "testdata/launch.c")
	child := testkit.Start(t, exec.Command(dir+"/bursts", dir+"/libcudart.so.12"))
	child.Line("ready")
	r := begin(t, session.LiveOptions{Select: pids(child), Probes: probes.Options{Rows: []events.Row{*op.Row()}}})
	for range 20 {
		child.Say("2000")
		child.Line("done")
	}
	child.CloseStdin()
	if err := child.Wait(); err != nil {
		t.Fatal(err)
	}
	r.end(t)
	if s := sum(r.last, "cudaLaunchKernel"); s.Calls != 40_000 || s.Done != 40_000 {
		t.Errorf("%d calls, %d timed, want 40000", s.Calls, s.Done)
	}
}
