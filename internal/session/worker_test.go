package session_test

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	"ingero/internal/probes"
	"ingero/internal/proc"
	"ingero/internal/session"
	"ingero/internal/testkit"
	"ingero/pkg/events"
	"ingero/sim"
)

// What a program waits for is told with the line at which its worker spends the time: also where
// a thread of the worker hands the input over, and where the worker makes no calls.
func TestLineOfAWorker(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"sleep", "spin"} {
		for _, start := range []string{"fork", "program"} {
			t.Run(how+" "+start, func(t *testing.T) { lineOfAWorker(t, systemPython(t), how, start) })
		}
	}
}

func lineOfAWorker(t *testing.T, python, how, start string) {
	testkit.NeedBPF(t)
	stack, err := sim.Extract(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	var rows []events.Row
	for _, name := range []string{"cudaSetDevice", "cudaDeviceSynchronize"} {
		op, _ := events.OpByName(name)
		rows = append(rows, *op.Row())
	}
	seen := &interpreted{}
	c := testkit.Start(t, exec.Command(python, "testdata/worker.py", stack.Dir, how, start))
	c.Line("ready")
	r := beginWith(t, session.LiveOptions{Select: proc.Selector{PIDs: []uint32{uint32(c.PID())}}, Notify: seen.notify,
		Probes: probes.Options{Rows: rows, Stacks: probes.StacksSlow}}, session.Config{Interval: 50 * time.Millisecond})
	seen.wait(t, c.PID())
	c.Say("go")
	var worker, line uint32
	if _, err := fmt.Sscanf(c.Line("worker "), "worker %d %d", &worker, &line); err != nil {
		t.Fatal(err)
	}
	place := fmt.Sprintf("worker.py:%d in %s()", line, how)
	var places map[string]bool
	testkit.Eventually(t, "a wait for the worker's thread that makes the input, at "+place, func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		places = map[string]bool{}
		if r.last == nil {
			return false
		}
		for _, b := range r.last.Breakdowns {
			for _, s := range b.BlockedOn {
				if w := s.Waker; w != nil && s.Who.PID == worker && w.Root.TID == worker {
					places[s.WakerAt] = true
				}
			}
		}
		for at := range places {
			if strings.HasSuffix(at, place) {
				return true
			}
		}
		return false
	})
	c.Say("end")
	if err := c.Wait(); err != nil {
		t.Fatal(err)
	}
	r.end(t)
}
