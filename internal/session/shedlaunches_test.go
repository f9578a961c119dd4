package session_test

import (
	"fmt"
	"os/exec"
	"slices"
	"sync"
	"testing"
	"time"

	"ingero/internal/probes"
	"ingero/internal/proc"
	"ingero/internal/session"
	"ingero/internal/testkit"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

// handClock is a clock that a test sets. Waits on it are short, and do not move it.
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

// second advances the clock by a second, and waits for the tick at its end.
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

// counted reports whether a process's launches are counted only, in the last tick.
func (c *collector) counted(pid uint32) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.last != nil && slices.ContainsFunc(c.last.Processes, func(p tick.Process) bool { return p.PID == pid && p.Counted })
}

// A process's launches are counted only while that is requested: each launch is counted, and only
// timed ones have durations. Launches of another process are unaffected.
func TestLaunchesAreCounted(t *testing.T) {
	t.Parallel()
	testkit.NeedBPF(t)
	op, _ := events.OpByName("cudaLaunchKernel")
	dir := t.TempDir()
	gcc(t, "-o", dir+"/bursts", "testdata/bursts.c", "-ldl")
	gcc(t, "-shared", "-fPIC", "-o", dir+"/libcudart.so.12", "testdata/launch.c")
	for _, mode := range modes {
		t.Run(string(mode), func(t *testing.T) {
			var children []*testkit.Child
			for range 2 {
				c := testkit.Start(t, exec.Command(dir+"/bursts", dir+"/libcudart.so.12"))
				c.Line("ready")
				children = append(children, c)
			}
			clock := &handClock{now: time.Unix(1_800_000_000, 0)}
			r := beginWith(t, session.LiveOptions{Select: proc.Selector{PIDs: []uint32{uint32(children[0].PID()), uint32(children[1].PID())}},
				Probes: probes.Options{Mode: mode, SamplingRate: 1, Rows: []events.Row{*op.Row()}}},
				session.Config{Clock: clock})
			children[0].Send("1")
			children[0].Line("done")
			testkit.Eventually(t, "the session to run by its clock", func() bool { return r.saw() > 0 })
			first := uint32(children[0].PID())
			timed, counted := uint64(1), uint64(0)
			for _, on := range []bool{false, true, true, false} {
				var which []uint32
				if on {
					which = []uint32{first}
				}
				if err := r.live.Capabilities().Shedder.CountLaunches(which); err != nil {
					t.Fatal(err)
				}
				const n = 1000
				for _, c := range children {
					c.Send(fmt.Sprint(n))
					c.Line("done")
				}
				if clock.second(t, r); r.counted(first) != on || r.counted(uint32(children[1].PID())) {
					t.Errorf("launches are counted only: %v and %v, want %v and false", r.counted(first), r.counted(uint32(children[1].PID())), on)
				}
				if on {
					counted += n
				} else {
					timed += n
				}
			}
			for _, c := range children {
				c.CloseStdin()
				if err := c.Wait(); err != nil {
					t.Fatal(err)
				}
			}
			r.end(t)
			r.madeLaunches(t, children[0], [3]uint64{timed + counted, timed, counted})
			r.madeLaunches(t, children[1], [3]uint64{timed + counted - 1, timed + counted - 1, 0}) // not the first one
		})
	}
}

// madeLaunches checks the number of a program's launches, and how many were timed and counted.
func (c *collector) madeLaunches(t *testing.T, child *testkit.Child, want [3]uint64) {
	t.Helper()
	for _, o := range c.last.Ops {
		if o.PID != uint32(child.PID()) {
			continue
		}
		if got := [3]uint64{o.Sum.Calls, o.Sum.Done, o.Sum.Unmeasured}; got != want || o.Dur.Count() != want[1] {
			t.Errorf("process %d: calls, timed and counted are %v, and %d durations; want %v", o.PID, got, o.Dur.Count(), want)
		}
		return
	}
	t.Errorf("no launches of process %d", child.PID())
}

// Without a budget nothing is shed.
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
		child.Send("2000")
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
