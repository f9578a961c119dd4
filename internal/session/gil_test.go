package session_test

import (
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"ingero/internal/probes"
	"ingero/internal/proc"
	"ingero/internal/session"
	"ingero/internal/testkit"
	"ingero/internal/tick"
	"ingero/pkg/events"
	"ingero/sim"
)

// gilRun is a program of two threads, one of which keeps the GIL from the other.
type gilRun struct {
	*running
	child  *testkit.Child
	how    string // what it holds the lock across
	holder uint32 // thread that holds the lock
	place  string // its place
	turns  *gilTurns
}

// gilTurns keeps the lock waits and the start times of calls of a program's first thread.
type gilTurns struct {
	mu    sync.Mutex
	pid   uint32
	waits []events.Wait
	calls []int64
}

func (g *gilTurns) Batch(b *tick.Batch) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	for i := range b.Waits {
		if w := &b.Waits[i]; w.TID == g.pid && w.Reason == events.ReasonGIL {
			g.waits = append(g.waits, *w)
		}
	}
	for i := range b.Calls {
		if c := &b.Calls[i]; c.TID == g.pid {
			g.calls = append(g.calls, c.Start)
		}
	}
	return nil
}

func (g *gilTurns) Tick(*tick.Tick) error { return nil }
func (g *gilTurns) Close() error          { return nil }

// goOn counts the waits that continue the one before, and fails if the thread made a call in
// between, since it then had the lock.
func (g *gilTurns) goOn(t *testing.T) (n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for i := 1; i < len(g.waits); i++ {
		before, w := &g.waits[i-1], &g.waits[i]
		if before.Passed == 0 || w.Passed != before.Passed {
			continue
		}
		n++
		if slices.ContainsFunc(g.calls, func(at int64) bool { return at >= before.End() && at < w.Start }) {
			t.Errorf("a call was made between two waits, and the lock had passed %d times before and after", w.Passed)
		}
	}
	return n
}

// runGIL runs the program in a Python. It holds the lock until it is stopped, or as often as holds
// says.
func runGIL(t *testing.T, python, how string, holds ...string) *gilRun {
	t.Helper()
	testkit.NeedBPF(t)
	stack, err := sim.Extract(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	rows := testkit.OpRows("cudaSetDevice", "cudaDeviceSynchronize", "cudaLaunchKernel")
	seen := &interpreted{}
	c := testkit.Start(t, exec.Command(python, append([]string{"testdata/gil.py", stack.Dir, how}, holds...)...))
	c.Line("ready")
	turns := &gilTurns{pid: uint32(c.PID())}
	r := beginWith(t, session.LiveOptions{Select: proc.Selector{PIDs: []uint32{uint32(c.PID())}}, Notify: seen.notify,
		Probes: probes.Options{Rows: rows, Stacks: probes.StacksSlow}}, session.Config{Interval: 50 * time.Millisecond, Sinks: []tick.Sink{turns}})
	seen.wait(t, c.PID())
	c.Send("go")
	g := &gilRun{running: r, child: c, how: how, turns: turns}
	var line int
	if _, err := fmt.Sscanf(c.Line("holder "), "holder %d %d", &g.holder, &line); err != nil {
		t.Fatal(err)
	}
	g.place = fmt.Sprintf("gil.py:%d in hold()", line)
	return g
}

// end ends the program, and returns the program's own times: of holding the lock, and in total.
func (g *gilRun) end(t *testing.T) (held, took time.Duration) {
	t.Helper()
	if _, err := fmt.Sscanf(g.child.Line("done "), "done %d %d", &held, &took); err != nil {
		t.Fatal(err)
	}
	g.child.Send("end")
	if err := g.child.Wait(); err != nil {
		t.Fatal(err)
	}
	g.running.end(t)
	return held, took
}

// waited returns the waiting times up to the last tick: for the lock with its holder, the holder's
// line and its call; for the lock in total; and for a CPU.
func (g *gilRun) waited(t *testing.T) (named, all, runnable time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.last == nil {
		return 0, 0, 0
	}
	across := map[string]string{"sync": "cudaDeviceSynchronize"}[g.how]
	for _, b := range g.last.Breakdowns {
		runnable += time.Duration(b.Runnable)
		for _, s := range b.BlockedOn {
			if s.Reason != events.ReasonGIL {
				continue
			}
			all += time.Duration(s.NS)
			op := ""
			if s.Across != 0 {
				op = s.Across.String()
			}
			if s.Own && s.Who.TID == g.holder && strings.HasSuffix(s.At, g.place) && op == across {
				named += time.Duration(s.NS)
			} else if g.last.Final {
				t.Logf("%v: by %d at %q across %q", time.Duration(s.NS), s.Who.TID, s.At, op)
			}
		}
	}
	return named, all, runnable
}

// A thread that waits for the GIL has the holder, the line that releases the GIL, and the call that
// the holder held it across.
func TestGIL(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"sleep", "sync", "spin"} {
		t.Run(how, func(t *testing.T) { nameGILHolder(t, systemPython(t), how) })
	}
}

// nameGILHolder runs a program until a lock wait is reported with all its details.
func nameGILHolder(t *testing.T, python, how string) {
	t.Helper()
	g := runGIL(t, python, how)
	testkit.Eventually(t, "a wait for the lock with its holder, line and call", func() bool {
		named, _, _ := g.waited(t)
		return named > 0
	})
	g.child.Send("stop")
	_, took := g.end(t)
	if named, all, _ := g.waited(t); named > all || named > took {
		t.Errorf("waited for the lock %v, of which %v with its holder; all took %v", all, named, took)
	}
}

// Each wait has the count of lock handovers: it distinguishes the turns of one wait, in which the
// thread never had the lock, from separate waits.
func TestGILTurns(t *testing.T) {
	t.Parallel()
	g := runGIL(t, systemPython(t), "sleep")
	testkit.Eventually(t, "a wait of several turns", func() bool { return g.turns.goOn(t) > 0 })
	g.child.Send("stop")
	g.end(t)
	g.turns.goOn(t)
}
