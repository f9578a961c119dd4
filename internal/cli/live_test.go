package cli

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"ingero/internal/lock"
	"ingero/internal/testkit"
	"ingero/internal/wire"
	"ingero/sim"
)

// bench is a directory with the simulated stack, a lock and a database.
type bench struct {
	t     *testing.T
	dir   string
	stack sim.Stack
	place lock.Place
	env   []string
}

// newBench creates a bench and marks the test as parallel.
func newBench(t *testing.T) *bench {
	t.Helper()
	testkit.NeedBPF(t)
	t.Parallel() // traces mostly wait, and each has its own lock
	b := &bench{t: t, dir: t.TempDir()}
	var err error
	if b.stack, err = sim.Extract(filepath.Join(b.dir, "sim")); err != nil {
		t.Fatal(err)
	}
	var variable string
	b.place, variable = testLock(b.dir)
	b.env = append(os.Environ(), variable, "INGERO_DB="+b.db(), "TZ=UTC")
	return b
}

func (b *bench) db() string { return filepath.Join(b.dir, "ingero.db") }

// ingero starts a command.
func (b *bench) ingero(args ...string) *testkit.Child {
	b.t.Helper()
	cmd := exec.Command("/proc/self/exe", args...)
	cmd.Env = b.env
	return testkit.Start(b.t, cmd)
}

// output runs a command to its end.
func (b *bench) output(args ...string) (stdout, stderr string, code int) {
	b.t.Helper()
	c := b.ingero(args...)
	return finish(b.t, c)
}

func finish(t *testing.T, c *testkit.Child) (stdout, stderr string, code int) {
	t.Helper()
	if err := c.Wait(); err != nil {
		exit, ok := err.(*exec.ExitError)
		if !ok {
			t.Fatal(err)
		}
		code = exit.ExitCode()
	}
	return c.Stdout(), c.Stderr(), code
}

// train starts a training loop that waits for a line before its first CUDA call.
func (b *bench) train(args ...string) *testkit.Child {
	b.t.Helper()
	c := testkit.Start(b.t, exec.Command(b.stack.Program("train"), append(args, "--hold")...))
	c.Line("ready")
	return c
}

// tracing waits until a trace publishes that it traces this many processes.
func (b *bench) tracing(processes int) wire.TraceState {
	b.t.Helper()
	var s wire.TraceState
	testkit.Eventually(b.t, fmt.Sprintf("a trace of %d processes", processes), func() bool {
		h, err := b.place.Holder()
		if err != nil || h == nil {
			return false
		}
		s, err = b.place.State(*h)
		return err == nil && len(s.Processes) == processes
	})
	return s
}

func pid(c *testkit.Child) string { return strconv.Itoa(c.PID()) }

// jsonTick is the part of a tick that the tests read.
type jsonTick struct {
	Type  string `json:"type"`
	Final bool   `json:"final"`
	Lost  uint64 `json:"lost"`
	Ops   []struct {
		Op    string `json:"op"`
		Calls uint64 `json:"calls"`
	} `json:"ops"`
}

// parse reads JSON lines and returns the number of calls of each operation, and the last tick.
func parse(t *testing.T, text string) (calls map[string]uint64, last jsonTick) {
	t.Helper()
	calls = map[string]uint64{}
	s := bufio.NewScanner(strings.NewReader(text))
	s.Buffer(nil, 1<<20)
	for s.Scan() {
		var x struct {
			Type string `json:"type"`
			Op   string `json:"op"`
		}
		if err := json.Unmarshal(s.Bytes(), &x); err != nil {
			t.Fatalf("%v in line %q", err, s.Text())
		}
		switch x.Type {
		case "call":
			calls[x.Op]++
		case "wait", "process", "function", "chain_begin", "chain_end": // depend on the load of the machine
		case "tick":
			last = jsonTick{}
			if err := json.Unmarshal(s.Bytes(), &last); err != nil {
				t.Fatal(err)
			}
		default:
			t.Errorf("line of type %q", x.Type)
		}
	}
	return calls, last
}

// counts returns the counts that a training loop prints, by operation.
func counts(t *testing.T, c *testkit.Child) map[string]uint64 {
	t.Helper()
	var all map[string]any
	line := c.Line("{")
	if err := json.Unmarshal([]byte(line), &all); err != nil {
		t.Fatalf("%v in %q", err, line)
	}
	out := map[string]uint64{}
	for name, n := range all {
		if strings.HasPrefix(name, "cuda") {
			out[name] = uint64(n.(float64))
		}
	}
	return out
}

// A named process is traced exactly, until it ends.
func TestTraceOfAProcess(t *testing.T) {
	b := newBench(t)
	target := b.train("--steps", "30")
	c := b.ingero("trace", "--json", "--pid", pid(target))
	b.tracing(1)
	target.Send("go")
	want := counts(t, target)
	_, stderr, code := finish(t, c)
	if code != 0 {
		t.Errorf("exit code = %d, want 0", code)
	}
	calls, last := parse(t, c.Stdout())
	got := map[string]uint64{}
	for _, o := range last.Ops {
		if _, ok := want[o.Op]; ok {
			got[o.Op] = o.Calls
		}
		if strings.HasPrefix(o.Op, "cuda") && calls[o.Op] != o.Calls {
			t.Errorf("%s: %d lines, %d calls counted", o.Op, calls[o.Op], o.Calls)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("counts (-the program's +the trace's):\n%s", diff)
	}
	if !last.Final || last.Lost != 0 {
		t.Errorf("last tick: final %v, %d lost", last.Final, last.Lost)
	}
	for _, line := range []string{"train (" + pid(target) + ")", "1 process in", ", 0 lost", "Recorded to " + b.db()} {
		if !strings.Contains(stderr, line) {
			t.Errorf("standard error lacks %q:\n%s", line, stderr)
		}
	}
}

// A trace that finds no process says so, and sees later ones.
func TestTraceWaits(t *testing.T) {
	b := newBench(t)
	shell := testkit.Start(t, exec.Command("sh", "-c", `echo up; read x; exec "$0" --seconds 60`, b.stack.Program("train")))
	shell.Line("up")
	c := b.ingero("trace", "--pid", pid(shell), "--record=false")
	c.Line("sh (" + pid(shell) + ") has not loaded CUDA yet: waiting for it.")
	shell.Send("go")
	testkit.Eventually(t, "calls", func() bool { return b.tracing(1).Calls > 0 })
	shell.Signal(syscall.SIGTERM)
	stdout, _, code := finish(t, c)
	if code != 0 || !strings.Contains(stdout, "cudaLaunchKernel") {
		t.Errorf("exit code %d, want 0 and the table with cudaLaunchKernel:\n%s", code, stdout)
	}
	if _, err := os.Stat(b.db()); err == nil {
		t.Error("--record=false made a database")
	}
}

// However a trace ends, it ends cleanly and keeps its recording.
func TestTraceEnds(t *testing.T) {
	for name, tt := range map[string]struct {
		args []string
		end  func(c, target *testkit.Child)
	}{
		"SIGINT":     {nil, func(c, _ *testkit.Child) { c.Signal(syscall.SIGINT) }},
		"SIGTERM":    {nil, func(c, _ *testkit.Child) { c.Signal(syscall.SIGTERM) }},
		"duration":   {[]string{"--duration", "300ms"}, func(_, _ *testkit.Child) {}},
		"the target": {nil, func(_, target *testkit.Child) { target.Signal(syscall.SIGKILL) }},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			target := b.train("--seconds", "30")
			target.Send("go")
			c := b.ingero(append([]string{"trace", "--pid", pid(target)}, tt.args...)...)
			c.Line("Tracing train")
			if len(tt.args) == 0 {
				testkit.Eventually(t, "calls", func() bool { return b.tracing(1).Calls > 0 })
			}
			tt.end(c, target)
			stdout, stderr, code := finish(t, c)
			if code != 0 || stderr != "" {
				t.Errorf("exit code %d, standard error %q, want 0 and nothing", code, stderr)
			}
			if !strings.Contains(stdout, "Recorded to "+b.db()) {
				t.Errorf("standard output says of no recording:\n%s", stdout)
			}
			if h, err := b.place.Holder(); h != nil || err != nil {
				t.Errorf("the lock is held: %+v, %v", h, err)
			}
			if left, _ := filepath.Glob(filepath.Join(b.dir, "ingero-trace*")); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
		})
	}
}

// Only one trace can run: a second one reports the first; the lock of a killed one is taken over.
func TestSecondTrace(t *testing.T) {
	b := newBench(t)
	target := b.train("--seconds", "60")
	target.Send("go")
	first := b.ingero("trace", "--pid", pid(target))
	testkit.Eventually(t, "calls", func() bool { return b.tracing(1).Calls > 0 })

	_, stderr, code := b.output("trace", "--pid", pid(target))
	if want := fmt.Sprintf("another trace is already running (pid %d, since ", first.PID()); code != 1 || !strings.Contains(stderr, want) {
		t.Errorf("second trace: code %d, want 1 and %q:\n%s", code, want, stderr)
	}
	_, stderr, code = b.output("run", "--", "true")
	if code != 1 || !strings.Contains(stderr, "another trace is already running") {
		t.Errorf("run: code %d, want 1:\n%s", code, stderr)
	}
	stdout, _, code := b.output("demo", "train", "--duration", "1s")
	if code != 0 || !strings.Contains(stdout, "Recording:") || !strings.Contains(stdout, "another trace is already running") {
		t.Errorf("demo: code %d, want 0 and the recording:\n%s", code, stdout)
	}
	stdout, _, code = b.output("check")
	if code != 0 || !strings.Contains(stdout, fmt.Sprintf("already tracing: pid %d", first.PID())) {
		t.Errorf("check: code %d, want 0 and a word on the trace:\n%s", code, stdout)
	}
	stdout, _, code = b.output("status")
	for _, want := range []string{fmt.Sprintf("pid %d, healthy", first.PID()), "train (" + pid(target) + ")", "Dropped      nothing", b.db()} {
		if code != 0 || !strings.Contains(stdout, want) {
			t.Errorf("status: code %d, want 0 and %q:\n%s", code, want, stdout)
		}
	}

	first.Signal(syscall.SIGKILL)
	_ = first.Wait()
	if stdout, _, code = b.output("status"); code != 1 {
		t.Errorf("status of a killed trace: code %d, want 1:\n%s", code, stdout)
	}
	stdout, stderr, code = b.output("trace", "--pid", pid(target), "--duration", "100ms", "--debug")
	if code != 0 || !strings.Contains(stderr, "the last trace was killed") {
		t.Errorf("trace after a killed one: code %d, want 0:\n%s%s", code, stdout, stderr)
	}
}

// A program that is stopped when ingero run is killed runs on.
func TestRunIsKilled(t *testing.T) {
	b := newBench(t)
	agent := b.ingero("run", "--", "sh", "-c", "echo pid $$; kill -STOP $$; echo resumed")
	stat := "/proc/" + strings.TrimPrefix(agent.Line("pid "), "pid ") + "/stat"
	testkit.Eventually(t, "a stopped program", func() bool {
		text, err := os.ReadFile(stat)
		return err == nil && strings.Contains(string(text), ") T ")
	})
	agent.Signal(syscall.SIGKILL)
	agent.Line("resumed")
}

// A reader that closes the output ends the trace silently.
func TestReaderGoes(t *testing.T) {
	b := newBench(t)
	target := b.train("--seconds", "60")
	target.Send("go")
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("/proc/self/exe", "trace", "--json", "--pid", pid(target))
	var stderr bytes.Buffer
	cmd.Env, cmd.Stdout, cmd.Stderr = b.env, write, &stderr
	if err := testkit.Launch(cmd); err != nil {
		t.Fatal(err)
	}
	_ = write.Close()
	if line, err := bufio.NewReader(read).ReadString('\n'); err != nil || !strings.HasPrefix(line, `{"type":`) {
		t.Errorf("first line %q, %v", line, err)
	}
	_ = read.Close()
	if err := cmd.Wait(); err != nil {
		t.Errorf("%v, want a clean end", err)
	}
	if !strings.Contains(stderr.String(), "Recorded to") {
		t.Errorf("what it had was not kept:\n%s", &stderr)
	}
}
