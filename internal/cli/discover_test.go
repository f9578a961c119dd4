package cli

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"ingero/internal/testkit"
	"ingero/internal/wire"
)

// --debug logs what ingero finds, and check --pid reports what a trace sees of a process.
func TestDiscovery(t *testing.T) {
	b := newBench(t)
	target := b.train("--seconds", "600") // it maps the driver's library at its first call
	c := b.ingero("trace", "--debug", "--pid", pid(target), "--record=false")
	b.tracing(1)
	stdout, stderr, code := b.output("check", "--json", "--pid", pid(target))
	var r wire.Check
	if err := json.Unmarshal([]byte(stdout), &r); err != nil || code != 0 {
		t.Fatalf("check --json --pid: code %d, %v:\n%s%s", code, err, stdout, stderr)
	}
	traced := ""
	for _, l := range r.Lines {
		if l.ID == "traced" {
			traced = l.Value
		}
	}
	if want := "by ingero " + pid(c); traced != want {
		t.Errorf("check --pid says that it is traced %q, want %q", traced, want)
	}
	target.Send("go")
	for _, want := range []string{"INFO discover: found libcudart.so path=" + b.stack.Libcudart, "INFO discover: found libcuda.so path=" + b.stack.Libcuda} {
		testkit.Eventually(t, "line of --debug: "+want, func() bool { return strings.Contains(c.Stderr(), want) })
	}
	target.Signal(syscall.SIGKILL)
	finish(t, c)
}

// A library of --cuda-lib replaces all others of its kind; a file that is no library is rejected.
func TestCudaLib(t *testing.T) {
	b := newBench(t)
	other := filepath.Join(b.dir, "odd.bin")
	code, err := os.ReadFile(b.stack.Libcudart)
	if err == nil {
		err = os.WriteFile(other, code, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		args    []string
		runtime bool
		driver  bool
	}{
		"that runtime":    {[]string{"--cuda-lib", b.stack.Libcudart}, true, true},
		"another runtime": {[]string{"--cuda-lib", other}, false, true},
		"both":            {[]string{"--cuda-lib", other, "--cuda-lib", b.stack.Libcudart}, true, true},
		"in one":          {[]string{"--cuda-lib", other + ":" + b.stack.Libcudart + ":" + b.stack.Libcuda}, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			out := filepath.Join(t.TempDir(), "calls.jsonl")
			args := append([]string{"run", "--json", "--record=false", "--output", out}, tt.args...)
			if _, stderr, code := b.output(append(args, "--", b.stack.Program("train"), "--steps", "5")...); code != 0 {
				t.Fatalf("run: code %d:\n%s", code, stderr)
			}
			text, err := os.ReadFile(out)
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(string(text), "SIGSTOP") {
				t.Error("the stop in which the probes are put in is reported as a signal to the program")
			}
			seen, _ := parse(t, string(text))
			if got := seen["cudaLaunchKernel"] > 0; got != tt.runtime {
				t.Errorf("calls of the runtime are seen: %v, want %v", got, tt.runtime)
			}
			if got := seen["cuLaunchKernel"] > 0; got != tt.driver {
				t.Errorf("calls of the driver are seen: %v, want %v", got, tt.driver)
			}
		})
	}
	_, stderr, exit := b.output("trace", "--cuda-lib", b.stack.Program("train"))
	if exit != exitUsage || !strings.Contains(stderr, "defines no traced function of CUDA or NCCL") {
		t.Errorf("a program as a library: code %d, want %d:\n%s", exit, exitUsage, stderr)
	}
}

// Too many launches to time are counted, and status, the trace and the report say so; the limit has
// its old name here.
func TestProbeBudget(t *testing.T) {
	b := newBench(t)
	target := b.train("--seconds", "120")
	target.Send("go")
	c := b.ingero("trace", "--probe-budget", "0.01%", "--pid", pid(target))
	testkit.Eventually(t, "launches that are counted only", func() bool {
		s := b.tracing(1)
		return s.Processes[0].Counted
	})
	stdout, _, _ := b.output("status")
	if want := "Launches     counted, not timed, to limit overhead of train (" + pid(target) + ")"; !strings.Contains(stdout, want) {
		t.Errorf("status lacks %q:\n%s", want, stdout)
	}
	stdout, _, _ = b.output("check", "--pid", pid(target))
	if !strings.Contains(strings.Join(strings.Fields(stdout), " "), "its launches are counted but not timed") {
		t.Errorf("check --pid does not say that launches are counted only:\n%s", stdout)
	}
	c.Signal(syscall.SIGINT)
	const said = "launches of processes that make very many are counted, not timed"
	if stdout, _, code := finish(t, c); code != 0 || !strings.Contains(stdout, said) {
		t.Errorf("trace: code %d, want 0 and a word on launches:\n%s", code, stdout)
	}
	stdout, stderr, code := b.output("explain")
	if code != 0 || !strings.Contains(strings.Join(strings.Fields(stdout), " "), said) {
		t.Errorf("explain: code %d, want 0 and %q:\n%s%s", code, said, stdout, stderr)
	}
}

// --pid of a thread names the process: nothing is traced, checked or labelled.
func TestThreadInsteadOfProcess(t *testing.T) {
	ids, end := make(chan int), make(chan struct{})
	t.Cleanup(func() { close(end) })
	for range 2 { // one of them may be the main thread
		go func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			ids <- unix.Gettid()
			<-end
		}()
	}
	thread, other := <-ids, <-ids
	if thread == os.Getpid() {
		thread = other
	}
	comm, _, err := ancestor(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	for verb, args := range map[string][]string{"trace": {"--duration", "1s"}, "check": nil, "annotate": {"epoch=3"}} {
		code, _, stderr := command(t, nil, nil, append([]string{verb, "--pid", fmt.Sprint(thread)}, args...)...)
		what := fmt.Sprintf("%d is a thread of process %d (%s)", thread, os.Getpid(), comm)
		do := fmt.Sprintf("%s the process: ingero %[1]s --pid %d", verb, os.Getpid())
		if code != exitFailed || !strings.Contains(stderr, what) || !strings.Contains(stderr, do) {
			t.Errorf("%s: exit code %d, %s; want %q, %q", verb, code, stderr, what, do)
		}
	}
}
