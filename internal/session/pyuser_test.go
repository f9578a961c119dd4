package session_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode"

	"ingero/internal/probes"
	"ingero/internal/proc"
	"ingero/internal/session"
	"ingero/internal/testkit"
	"ingero/internal/tick"
	"ingero/pkg/events"
	"ingero/sim"
)

// arrivals receives stacks as they are named.
type arrivals struct {
	calls  map[uint32]uint64 // call arguments by stack number
	stacks []events.Stack
	named  chan int // number of stacks so far
}

func (a *arrivals) Batch(b *tick.Batch) error {
	for i := range b.Calls {
		if c := &b.Calls[i]; c.Stack != 0 {
			a.calls[c.Stack], _ = c.Value(events.RoleDevice)
		}
	}
	before := len(a.stacks)
	for _, s := range b.Stacks {
		if !s.Own { // those of its waits do not matter
			a.stacks = append(a.stacks, s)
		}
	}
	if len(a.stacks) > before {
		a.named <- len(a.stacks)
	}
	return nil
}

func (a *arrivals) Tick(*tick.Tick) error { return nil }
func (a *arrivals) Close() error          { close(a.named); return nil }

// pythonOf returns the Python functions of a stack, innermost first.
func pythonOf(s *events.Stack) []string {
	var out []string
	for _, f := range s.Frames {
		if f.Kind == events.FramePython {
			out = append(out, f.Func)
		}
	}
	return out
}

// fromUserSpace traces a program whose Python stacks the agent walks.
func fromUserSpace(t *testing.T, a *arrivals, c *testkit.Child) *running {
	t.Helper()
	op, _ := events.OpByName("cudaSetDevice")
	seen := &interpreted{}
	r := beginWith(t, session.LiveOptions{Select: proc.Selector{PIDs: []uint32{uint32(c.PID())}}, Notify: seen.notify, PyFromUser: true,
		Probes: probes.Options{Rows: []events.Row{*op.Row()}, Stacks: probes.StacksAll}}, session.Config{Sinks: []tick.Sink{a}})
	seen.wait(t, c.PID())
	unwound(t, r, 1)
	return r
}

// Stacks that the agent walks are always right for stopped threads. For running threads they have
// functions of the program.
func TestStacksFromUserSpace(t *testing.T) {
	t.Parallel()
	stacksFromUserSpace(t, testkit.PythonVersion(t))
}

// stacksFromUserSpace returns the number of stacks of a running thread that matched their calls,
// and the total.
func stacksFromUserSpace(t *testing.T, version string) (right, of int) {
	t.Helper()
	testkit.NeedBPF(t)
	stack, err := sim.Extract(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	truth := map[uint64][]string{1001: {"one", "main", "<module>"}, 1002: {"two", "main", "<module>"}}
	c := testkit.Start(t, exec.Command(testkit.NeedPython(t, version), "testdata/pyuser.py", stack.Libcudart))
	c.Line("ready")
	const stands, runs = 10, 500 * 3
	a := &arrivals{calls: map[uint32]uint64{}, named: make(chan int, stands+runs)}
	r := fromUserSpace(t, a, c)
	c.Send("go")
	wait := func(stacks int) {
		for have := 0; have < stacks; {
			if have = receive(t, "the stack of a call", a.named); have == 0 {
				t.Fatal("the session has ended")
			}
		}
	}
	for n := range stands {
		wait(n + 1)
		c.Send("go on")
	}
	c.Line("done")
	wait(stands + runs) // the end of a session does not wait for all
	c.Send("end")
	if err := c.Wait(); err != nil {
		t.Fatal(err)
	}
	r.end(t)
	for i := range a.stacks {
		s := &a.stacks[i]
		got, n := pythonOf(s), a.calls[s.ID]
		if n <= stands && !slices.Equal(got, []string{"stand", "outer", "main", "<module>"}) {
			t.Errorf("it stood behind call %d, in %q", n, got)
		}
		if n > stands && slices.Equal(got, truth[n]) || n == 1001 && slices.Equal(got, []string{"one", "two", "main", "<module>"}) {
			right++
		}
		checkNames(t, s)
	}
	if len(a.stacks) != stands+runs {
		t.Errorf("%d stacks, want %d", len(a.stacks), stands+runs)
	}
	return right, runs
}

// checkNames checks that the Python functions of a stack are from pyuser.py or from Python itself.
func checkNames(t *testing.T, s *events.Stack) {
	t.Helper()
	own := []string{"<module>", "main", "one", "two", "spin", "spin.<locals>.<genexpr>", "<genexpr>", "stand", "outer"}
	for _, f := range s.Frames {
		if f.Kind != events.FramePython {
			continue
		}
		if filepath.Base(f.File) == "pyuser.py" {
			if !slices.Contains(own, f.Func) {
				t.Errorf("%q is no function of the program", f.Func)
			}
		} else if _, err := os.Stat(f.File); err != nil && !strings.HasPrefix(f.File, "<frozen ") {
			t.Errorf("%q in %q: %v", f.Func, f.File, err)
		}
	}
}

// A process that corrupts its own interpreter is traced like any other: each call is present, with
// the valid part of its stack, and only with names.
func TestHostileInterpreter(t *testing.T) {
	t.Parallel()
	stack, err := sim.Extract(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, user := range []bool{false, true} {
		t.Run(map[bool]string{false: "kernel", true: "userspace"}[user], func(t *testing.T) {
			testkit.NeedBPF(t)
			c := testkit.Start(t, exec.Command(systemPython(t), "../python/testdata/hostile.py", stack.Libcudart, "cudaSetDevice"))
			c.Line("ready")
			op, _ := events.OpByName("cudaSetDevice")
			sink, seen := &stackSink{stacks: map[uint32]events.Stack{}}, &interpreted{}
			r := beginWith(t, session.LiveOptions{Select: proc.Selector{PIDs: []uint32{uint32(c.PID())}}, Notify: seen.notify, PyFromUser: user,
				Probes: probes.Options{Rows: []events.Row{*op.Row()}, Stacks: probes.StacksAll}}, session.Config{Sinks: []tick.Sink{sink}})
			seen.wait(t, c.PID())
			unwound(t, r, 1)
			c.Send("go")
			c.Line("done")
			const calls = 10*3 + 1 + 2000 + 10 // of hostile.py
			sink.wait(t, calls)
			c.Send("end")
			if err := c.Wait(); err != nil {
				t.Fatal(err)
			}
			r.end(t)
			if len(sink.calls) != calls {
				t.Errorf("%d calls, want %d", len(sink.calls), calls)
			}
			sound := 0
			for i := range sink.calls {
				s := sink.stacks[sink.calls[i].Stack]
				if len(s.Frames) == 0 || s.Frames[0].Func != "cudaSetDevice" {
					t.Fatalf("call %d has the stack %v", i, s.Frames)
				}
				if py := pythonOf(&s); len(py) > 0 && py[0] == "attack" {
					sound++
				}
				for _, f := range s.Frames {
					if strings.ContainsFunc(f.Func+f.File, func(c rune) bool { return c != unicode.ReplacementChar && !unicode.IsPrint(c) }) {
						t.Fatalf("call %d has the frame %q in %q", i, f.Func, f.File)
					}
				}
			}
			t.Logf("%d of %d stacks begin in the function that called", sound, calls)
			if !user && sound != calls {
				t.Error("that function was sound")
			}
		})
	}
}
