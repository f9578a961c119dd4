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
	"ingero/internal/tick"
	"ingero/pkg/events"
	"ingero/sim"
)

// A thread that waits for Python's lock is said to, with the thread that held it, the line
// at which that let go, and the call that it had held it across.
func TestGIL(t *testing.T) {
	stack, err := sim.Extract(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	var rows []events.Row
	for _, name := range []string{"cudaSetDevice", "cudaDeviceSynchronize", "cudaLaunchKernel"} {
		op, _ := events.OpByName(name)
		rows = append(rows, *op.Row())
	}
	for _, version := range testkit.PythonVersions {
		for how, across := range map[string]string{"sleep": "", "sync": "cudaDeviceSynchronize"} {
			t.Run(version+"/"+how, func(t *testing.T) {
				testkit.NeedBPF(t)
				seen := &interpreted{}
				c := testkit.Start(t, exec.Command(testkit.NeedPython(t, version), "testdata/gil.py", stack.Dir, how))
				c.Line("ready")
				r := begin(t, session.LiveOptions{Select: proc.Selector{PIDs: []uint32{uint32(c.PID())}}, Notify: seen.notify,
					Probes: probes.Options{Rows: rows, Stacks: probes.StacksSlow}})
				seen.wait(t, c.PID())
				c.Say("go")
				var holder uint32
				var line int
				if _, err := fmt.Sscanf(c.Line("holder "), "holder %d %d", &holder, &line); err != nil {
					t.Fatal(err)
				}
				c.Line("done")
				c.Say("end")
				if err := c.Wait(); err != nil {
					t.Fatal(err)
				}
				r.end(t)
				checkGIL(t, r.last, holder, fmt.Sprintf("gil.py:%d in hold()", line), across)
			})
		}
	}
}

// checkGIL checks that the time for which the lock was held was waited, for it or for a CPU
// meanwhile, and that what was waited for it has its owner.
func checkGIL(t *testing.T, last *tick.Tick, holder uint32, place, across string) {
	t.Helper()
	const held = 25 * 22 * time.Millisecond
	var named, all, runnable time.Duration
	for _, b := range last.Breakdowns {
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
			if s.Own && s.Who.TID == holder && strings.HasSuffix(s.At, place) && op == across {
				named += time.Duration(s.NS)
			} else {
				t.Logf("%v: by %d at %q across %q", time.Duration(s.NS), s.Who.TID, s.At, op)
			}
		}
	}
	t.Logf("held for %v; waited for it %v, of which %v with the holder, its line and its call; and %v for a CPU", held, all, named, runnable)
	if all+runnable < held*8/10 || named < all*9/10 {
		t.Error("that is too little")
	}
}
