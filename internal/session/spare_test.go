package session_test

import (
	"fmt"
	"os/exec"
	"sync"
	"testing"
	"time"

	"ingero/internal/probes"
	"ingero/internal/session"
	"ingero/internal/testkit"
	"ingero/pkg/events"
)

// handClock is a clock that a test sets. Waits by it are short, and do not move it.
type handClock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *handClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (*handClock) After(time.Duration) <-chan time.Time { return time.NewTimer(time.Millisecond).C }

// second lets a second pass, and waits for the tick at its end.
func (c *handClock) second(t testing.TB, r *running) {
	t.Helper()
	c.mu.Lock()
	c.now = c.now.Add(time.Second)
	now := c.now
	c.mu.Unlock()
	testkit.Eventually(t, "the next tick", func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		return r.last != nil && r.last.Time.Equal(now)
	})
}

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
	t.Parallel()
	testkit.NeedBPF(t)
	op, ok := events.OpByName("cudaLaunchKernel")
	if !ok {
		t.Fatal("no such operation")
	}
	// A launch that is timed takes more than 50 ns of probes: 20,000 in a second are more than
	// a thousandth of it.
	const dear, sparse, last = 20_000, 5000, 100
	dir := t.TempDir()
	gcc(t, "-o", dir+"/bursts", "testdata/bursts.c", "-ldl")
	gcc(t, "-shared", "-fPIC", "-o", dir+"/libcudart.so.12", "testdata/launch.c")
	for _, mode := range modes {
		t.Run(string(mode), func(t *testing.T) {
			child := testkit.Start(t, exec.Command(dir+"/bursts", dir+"/libcudart.so.12"))
			child.Line("ready")
			clock := &handClock{now: time.Unix(1_800_000_000, 0)}
			r := beginWith(t, session.LiveOptions{Select: pids(child), ProbeBudget: 0.001,
				Probes: probes.Options{Mode: mode, SamplingRate: 1, Rows: []events.Row{*op.Row()}}},
				session.Config{Clock: clock})
			seconds := func(launches ...int) {
				for _, n := range launches {
					child.Say(fmt.Sprint(n))
					child.Line("done")
					clock.second(t, r)
				}
			}
			if seconds(0); r.counted() {
				t.Error("launches are counted only, of which there were none")
			}
			seconds(dear, dear) // the budget is passed in two ticks
			if seconds(sparse); !r.counted() {
				t.Error("launches are timed that take more than the budget")
			}
			seconds(make([]int, 12)...) // cool for ten seconds, and the tick that tells
			if r.counted() {
				t.Error("launches are counted only, of which there were none")
			}
			seconds(last)
			child.CloseStdin()
			if err := child.Wait(); err != nil {
				t.Fatal(err)
			}
			r.end(t)
			s := sum(r.last, "cudaLaunchKernel")
			const timed = 2*dear + last
			if s.Calls != timed+sparse || s.Done != timed || s.Unmeasured != sparse {
				t.Errorf("%d calls, %d timed, %d counted only; want %d and %d", s.Calls, s.Done, s.Unmeasured, timed, sparse)
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
	t.Parallel()
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
