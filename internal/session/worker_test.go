package session_test

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"ingero/internal/govern"
	"ingero/internal/probes"
	"ingero/internal/proc"
	"ingero/internal/session"
	"ingero/internal/testkit"
	"ingero/internal/tick"
	"ingero/pkg/events"
	"ingero/sim"
)

// A program's wait has the line where its worker spends the time: also if a thread of the worker
// passes the input on, with or without waiting for the result, and whether or not the worker makes
// calls.
func TestLineOfAWorker(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"sleep", "spin"} {
		for _, start := range []string{"fork", "program", "calls", "acks"} {
			t.Run(how+" "+start, func(t *testing.T) { lineOfAWorker(t, systemPython(t), how, start, session.Config{}) })
		}
	}
	// The worker wakes the waiting program, and then a process that works as long as it does.
	t.Run("spin shares", func(t *testing.T) { lineOfAWorker(t, systemPython(t), "spin", "shares", session.Config{}) })
}

var stacksRare = slices.IndexFunc(govern.Steps[:], func(s govern.Step) bool { return s.Name == "stacks-rare" })

// The fewer stacks of the step stacks-rare suffice to find the line.
func TestLineOfAWorkerOfFewStacks(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"sleep", "spin"} {
		t.Run(how, func(t *testing.T) {
			lineOfAWorker(t, systemPython(t), how, "program", session.Config{Forced: []int{stacksRare}})
		})
	}
}

// However few stacks are taken, each wait has the line of the worker's long block, not that of its many
// short ones.
func TestLineOfALongBlock(t *testing.T) {
	t.Parallel()
	const enough = 10
	sink := &stackSink{stacks: map[uint32]events.Stack{}}
	r, c, place, worker := startWorker(t, systemPython(t), "sleep", "polls", session.Config{Forced: []int{stacksRare}, Sinks: []tick.Sink{sink}})
	testkit.Eventually(t, fmt.Sprintf("%d waits in turn for %s", enough, place), func() bool {
		sink.mu.Lock()
		defer sink.mu.Unlock()
		n := 0
		for i := range sink.waits {
			w := &sink.waits[i]
			if w.Who.TID != worker || w.State != events.WaitBlocked {
				continue
			}
			s := sink.stacks[w.Stack]
			f := s.Site()
			if n++; f == nil || !strings.HasSuffix(f.Place(), place) {
				n = 0
			}
			if n == enough {
				return true
			}
		}
		return false
	})
	endWorker(t, r, c)
}

// A wait has the line where the program itself waits, whether or not a thread of another process ends it.
func TestLineOfAnOwnWait(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		reason  events.Reason
		byIRQ   bool
		program string // waits in its seventh line
	}{
		{events.ReasonSleep, true, `
def work():
    rt.lib.cudaDeviceSynchronize()
    time.sleep(0.02)`},
		{events.ReasonChild, false, `
import os
def work():
    os.system("sleep 0.02")
    rt.lib.cudaDeviceSynchronize()`},
		{events.ReasonLock, false, `
import fcntl, os
def work():
    fcntl.flock(file, fcntl.LOCK_EX)
    fcntl.flock(file, fcntl.LOCK_UN)
    rt.lib.cudaDeviceSynchronize()
name, job = sys.argv[1] + "/lock", os.getpid()
holder = os.fork() == 0
file = open(name, "w")
while holder and os.getppid() == job:
    fcntl.flock(file, fcntl.LOCK_EX)
    time.sleep(0.02)
    fcntl.flock(file, fcntl.LOCK_UN)
    time.sleep(0.002)
if holder: os._exit(0)`},
	} {
		t.Run(tt.reason.String(), func(t *testing.T) {
			r := synchronizing(t, tt.program)
			testkit.Eventually(t, "a wait at <string>:7", func() bool {
				r.mu.Lock()
				defer r.mu.Unlock()
				return r.last != nil && slices.ContainsFunc(r.last.Breakdowns, func(b tick.Breakdown) bool {
					return slices.ContainsFunc(b.BlockedOn, func(s tick.Share) bool {
						return s.Reason == tt.reason && s.ByIRQ == tt.byIRQ && s.At == "<string>:7 in work()"
					})
				})
			})
		})
	}
}

// A call after a computation has the line of that, and so has the process's own time. Of short ones,
// a sample finds some.
func TestLineOfOwnCode(t *testing.T) {
	t.Parallel()
	for name, seconds := range map[string]float64{"long": 0.05, "short": 0.003} {
		t.Run(name, func(t *testing.T) { lineOfOwnCode(t, seconds) })
	}
}

func lineOfOwnCode(t *testing.T, seconds float64) {
	const place = "<string>:7 in decode()"
	sink := &stackSink{stacks: map[uint32]events.Stack{}}
	r := synchronizing(t, fmt.Sprintf(`
def decode():
    end = time.perf_counter() + %v
    while time.perf_counter() < end: pass
def work():
    decode()
    rt.lib.cudaDeviceSynchronize()`, seconds), sink)
	testkit.Eventually(t, "a call after a computation at "+place, func() bool {
		sink.mu.Lock()
		defer sink.mu.Unlock()
		return slices.ContainsFunc(sink.calls, func(c events.Call) bool {
			s := sink.stacks[c.GapStack]
			f := s.Site()
			return f != nil && f.Place() == place
		})
	})
	testkit.Eventually(t, "a process that computes at "+place, func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		return r.last != nil && slices.ContainsFunc(r.last.Breakdowns, func(b tick.Breakdown) bool { return len(b.Code) > 0 && b.Code[0].At == place })
	})
}

// The same in a program without Python, for its own code and for a worker's.
func TestLineOfNativeCode(t *testing.T) {
	t.Parallel()
	op, _ := events.OpByName("cudaDeviceSynchronize")
	for _, who := range []string{"self", "program"} {
		t.Run(who, func(t *testing.T) {
			testkit.NeedBPF(t)
			stack, err := sim.Extract(t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			program := t.TempDir() + "/decode"
			gcc(t, "-g", "-O1", "-o", program, "testdata/decode.c", stack.Libcudart)
			cmd := exec.Command(program, who)
			cmd.Env = append(os.Environ(), "LD_LIBRARY_PATH="+stack.Dir)
			c := testkit.Start(t, cmd)
			c.Line("ready")
			r := beginWith(t, session.LiveOptions{Select: pids(c), Probes: probes.Options{Rows: []events.Row{*op.Row()}, Stacks: probes.StacksSlow}}, session.Config{Interval: 50 * time.Millisecond})
			unwound(t, r, 1)
			c.Send("go")
			testkit.Eventually(t, "a place in decode()", func() bool {
				r.mu.Lock()
				defer r.mu.Unlock()
				if r.last == nil {
					return false
				}
				var places []string
				for i := range r.last.Breakdowns {
					b := &r.last.Breakdowns[i]
					for _, x := range b.Code {
						places = append(places, x.At)
					}
					for j := range b.BlockedOn {
						places = append(places, b.BlockedOn[j].WakerAt)
					}
				}
				return slices.ContainsFunc(places, func(at string) bool {
					return strings.HasPrefix(at, "decode (decode) at ") && strings.Contains(at, "decode.c:1")
				})
			})
		})
	}
}

// synchronizing traces a Python program that calls work, in which rt is the CUDA runtime, for ever. The
// lines of work begin at the fifth.
func synchronizing(t *testing.T, work string, sinks ...tick.Sink) *running {
	t.Helper()
	testkit.NeedBPF(t)
	stack, err := sim.Extract(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	program := `import sys, time
sys.path.insert(0, sys.argv[1])
import gpu
rt = gpu.Runtime()` + work + `
print("ready", flush=True)
sys.stdin.readline()
while True: work()`
	op, _ := events.OpByName("cudaDeviceSynchronize")
	seen := &interpreted{}
	c := testkit.Start(t, exec.Command(systemPython(t), "-c", program, stack.Dir))
	c.Line("ready")
	r := beginWith(t, session.LiveOptions{Select: proc.Selector{PIDs: []uint32{uint32(c.PID())}}, Notify: seen.notify,
		Probes: probes.Options{Rows: []events.Row{*op.Row()}, Stacks: probes.StacksSlow}}, session.Config{Interval: 50 * time.Millisecond, Sinks: sinks})
	seen.wait(t, c.PID())
	c.Send("go")
	return r
}

// startWorker traces testdata/worker.py, and returns the place and the thread where its worker spends the time.
func startWorker(t *testing.T, python, how, start string, config session.Config) (r *running, c *testkit.Child, place string, worker uint32) {
	t.Helper()
	testkit.NeedBPF(t)
	stack, err := sim.Extract(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	config.Interval = 50 * time.Millisecond
	set, _ := events.OpByName("cudaSetDevice")
	wait, _ := events.OpByName("cudaDeviceSynchronize")
	rows := []events.Row{*set.Row(), *wait.Row()}
	seen := &interpreted{}
	c = testkit.Start(t, exec.Command(python, "testdata/worker.py", stack.Dir, how, start))
	c.Line("ready")
	live := session.LiveOptions{Select: proc.Selector{PIDs: []uint32{uint32(c.PID())}}, Notify: seen.notify,
		Probes: probes.Options{Rows: rows, Stacks: probes.StacksSlow}}
	if len(config.Forced) > 0 {
		live.MaxOverhead = 1000
	}
	r = beginWith(t, live, config)
	seen.wait(t, c.PID())
	testkit.Eventually(t, "the steps that are forced", func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		return r.last != nil && len(r.last.Overhead.Shed) == len(config.Forced)
	})
	c.Send("go")
	var line uint32
	if _, err := fmt.Sscanf(c.Line("worker "), "worker %d %d", &worker, &line); err != nil {
		t.Fatal(err)
	}
	return r, c, fmt.Sprintf("worker.py:%d in %s()", line, how), worker
}

func lineOfAWorker(t *testing.T, python, how, start string, config session.Config) {
	r, c, place, worker := startWorker(t, python, how, start, config)
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
				if w := s.Waker; w != nil && s.Who.PID == worker && (w.Root.TID == worker || s.Who.TID == worker) {
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
	endWorker(t, r, c)
}

func endWorker(t *testing.T, r *running, c *testkit.Child) {
	t.Helper()
	c.Send("end")
	if err := c.Wait(); err != nil {
		t.Fatal(err)
	}
	r.end(t)
}
