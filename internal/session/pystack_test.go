package session_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"ingero/internal/probes"
	"ingero/internal/proc"
	"ingero/internal/session"
	"ingero/internal/testkit"
	"ingero/internal/tick"
	"ingero/pkg/events"
	"ingero/sim"
)

// interpreted waits for processes with known interpreters.
type interpreted struct {
	mu  sync.Mutex
	why map[uint32]string
}

func (x *interpreted) notify(n session.Notice) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if n.Kind == session.NoticePython {
		if x.why == nil {
			x.why = map[uint32]string{}
		}
		x.why[n.PID] = n.Reason
	}
}

func (x *interpreted) wait(t *testing.T, pid int) (version string) {
	t.Helper()
	testkit.Eventually(t, "the interpreter of a process", func() bool {
		x.mu.Lock()
		defer x.mu.Unlock()
		version = x.why[uint32(pid)]
		return version != ""
	})
	return strings.TrimPrefix(version, "CPython ")
}

// Every call of Python programs of all kinds has the stack that the program itself saw at that
// call: every function, file and line, between native frames that lead from the library to the
// start of the thread.
func TestPythonStacks(t *testing.T) {
	t.Parallel()
	pythonStacks(t, testkit.PythonVersion(t))
}

// systemPython returns the path of python3.
func systemPython(t testing.TB) string { return testkit.NeedPython(t, testkit.PythonVersion(t)) }

func pythonStacks(t *testing.T, version string) {
	t.Helper()
	testkit.NeedBPF(t)
	stack, err := sim.Extract(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	dir, seen := t.TempDir(), &interpreted{}
	c := testkit.Start(t, exec.Command(testkit.NeedPython(t, version), "../python/testdata/corpus.py", dir, stack.Libcudart, "cudaSetDevice"))
	c.Line("ready")
	sink := &stackSink{stacks: map[uint32]events.Stack{}}
	op, _ := events.OpByName("cudaSetDevice")
	r := beginWith(t, session.LiveOptions{Select: proc.Selector{PIDs: []uint32{uint32(c.PID())}}, Notify: seen.notify,
		Probes: probes.Options{Rows: []events.Row{*op.Row()}, Stacks: probes.StacksAll}}, session.Config{Sinks: []tick.Sink{sink}})
	if got := seen.wait(t, c.PID()); got != version {
		t.Errorf("version %s, want %s", got, version)
	}
	unwound(t, r, 1)
	c.Send("go")
	pid, err := strconv.Atoi(strings.TrimPrefix(c.Line("spawned "), "spawned "))
	if err != nil {
		t.Fatal(err)
	}
	seen.wait(t, pid)
	unwound(t, r, 2)
	if err := os.WriteFile(filepath.Join(dir, "go."+strconv.Itoa(pid)), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	c.Line("done")
	want := testkit.PythonTruth(t, dir)
	sink.wait(t, len(want))
	c.Send("end")
	if err := c.Wait(); err != nil {
		t.Fatal(err)
	}
	r.end(t)
	comparePython(t, sink, want, uint32(c.PID()), uint32(pid))
}

// unwound waits until the kernel has the unwind tables of all mapped files.
func unwound(t *testing.T, r *running, processes int) {
	t.Helper()
	testkit.Eventually(t, "the tables of processes", func() bool {
		f := r.live.Unwinding()
		return f.Waiting == 0 && f.Processes >= processes && f.Tables == f.Files && f.Files > 1
	})
}

// comparePython compares the stacks of all calls with those that the program wrote. In known
// processes, each stack is complete. A child may make calls before the agent knows its mappings:
// their stacks have all Python functions, and those with a gap are counted as drops.
func comparePython(t *testing.T, sink *stackSink, want map[testkit.PythonCall][]string, known ...uint32) {
	t.Helper()
	const early = "stack-process-not-known"
	allowed := 0
	for _, d := range sink.last.Drops {
		if d.Reason == early {
			allowed = int(d.Count)
		}
	}
	wrong, cut, loose := 0, 0, 0
	for i := range sink.calls {
		call := &sink.calls[i]
		device, _ := call.Value(events.RoleDevice)
		key := testkit.PythonCall{PID: call.PID, Number: device}
		w, ok := want[key]
		if !ok {
			t.Errorf("a call that was not made: %v", key)
			continue
		}
		delete(want, key)
		s, ok := sink.stacks[call.Stack]
		if !ok {
			t.Errorf("%v has no stack", key)
			continue
		}
		var got []string
		gaps, last := 0, s.Frames[len(s.Frames)-1]
		for _, f := range s.Frames {
			switch f.Kind {
			case events.FramePython:
				got = append(got, testkit.PythonLine(f.Func, f.File, int(f.Line)))
			case events.FrameGap:
				gaps++
			}
		}
		if s.Cut && len(w) > len(got) && len(got) > 100 {
			cut++
			w = w[:len(got)]
		}
		if !slices.Equal(got, w) {
			if wrong++; wrong <= 3 {
				t.Errorf("%v:\n got %s\nwant %s", key, strings.Join(got, "\n     "), strings.Join(w, "\n     "))
			}
		}
		if !s.Cut && (gaps > 0 || last.Kind != events.FrameNative || s.Frames[0].Func != "cudaSetDevice") {
			if loose++; loose > allowed || slices.Contains(known, key.PID) {
				t.Errorf("%v: %d gaps, from %s to %s", key, gaps, s.Frames[0].Place(), last.Place())
			}
		}
	}
	t.Logf("%d calls, %d stacks, %d wrong, %d with gaps, %d cut", len(sink.calls), len(sink.stacks), wrong, loose, cut)
	if len(want) > 0 {
		t.Errorf("%d calls are not there", len(want))
	}
	if cut == 0 {
		t.Error("no stack was deeper than what is taken")
	}
	noDrops(t, sink.last, early)
}

// The first call of a Python program that waits at its gate has its line.
func TestGateWaitsForTheInterpreter(t *testing.T) {
	t.Parallel()
	python := systemPython(t)
	testkit.NeedBPF(t)
	stack, err := sim.Extract(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	const script = "import sys; sys.path.insert(0, sys.argv[1]); import gpu; gpu.Runtime().lib.cudaSetDevice(0); sys.stdin.readline()"
	c := testkit.Start(t, exec.Command("sh", "-c", `echo ready; read x; exec "$0" -c "$1" "$2"`, python, script, stack.Dir))
	c.Line("ready")
	sink := &stackSink{stacks: map[uint32]events.Stack{}}
	op, _ := events.OpByName("cudaSetDevice")
	pid := uint32(c.PID())
	r := beginWith(t, session.LiveOptions{Select: proc.Selector{PIDs: []uint32{pid}}, Gated: pid,
		Probes: probes.Options{Rows: []events.Row{*op.Row()}, Stacks: probes.StacksAll}}, session.Config{Sinks: []tick.Sink{sink}})
	c.Send("go")
	sink.wait(t, 1)
	c.Send("end")
	if err := c.Wait(); err != nil {
		t.Fatal(err)
	}
	r.end(t)
	if len(sink.calls) != 1 {
		t.Fatalf("%d calls", len(sink.calls))
	}
	s := sink.stacks[sink.calls[0].Stack]
	if site := s.Site(); site == nil || site.Place() != "<string>:1 in <module>()" {
		t.Errorf("the call was made at %+v", s.Frames)
	}
}
