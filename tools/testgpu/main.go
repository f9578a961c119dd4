// Command testgpu runs the tests on a machine that has a GPU and no Go. make test-gpu-bundle puts
// it into a directory with the agent, test binaries and programs that use CUDA. It writes one JSON
// report, and exits with status 1 if the report contains a failure. On a machine without a GPU,
// -sim replaces the libraries by the simulated CUDA stack.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"ingero/sim"
)

// report is the result of a run.
type report struct {
	Time      time.Time       `json:"time"`
	Simulated bool            `json:"simulated"`
	Host      host            `json:"host"`
	Check     json.RawMessage `json:"check,omitempty"` // the output of ingero check
	Suite     []suite         `json:"suite"`
	Traces    []trace         `json:"traces"`
	Overhead  []overhead      `json:"overhead"`
	Failures  []string        `json:"failures"`
}

// host describes the machine.
type host struct {
	Kernel string   `json:"kernel"`
	Arch   string   `json:"arch"`
	CPUs   int      `json:"cpus"`
	GPUs   []string `json:"gpus"` // name, driver version, memory
	Driver string   `json:"driver"`
	Python string   `json:"python"`
}

// lab has the paths and the environment of a run.
type lab struct {
	dir string   // the bundle
	tmp string   // a temporary directory of this run
	env []string // environment of programs that use CUDA
	sim bool
	r   *report
}

func main() {
	out := flag.String("o", "report.json", "the report")
	simulated := flag.Bool("sim", false, "use the simulated CUDA stack")
	tests := flag.Bool("tests", true, "run the test binaries")
	flag.Parse()
	r, err := run(*simulated, *tests)
	if err == nil {
		err = write(*out, r)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "testgpu:", err)
		os.Exit(1)
	}
	fmt.Printf("testgpu: %d traces, %d test binaries, %d failures; report in %s\n", len(r.Traces), len(r.Suite), len(r.Failures), *out)
	for _, f := range r.Failures {
		fmt.Println("  " + f)
	}
	if len(r.Failures) > 0 {
		os.Exit(1)
	}
}

func run(simulated, tests bool) (*report, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	tmp, err := os.MkdirTemp("", "testgpu")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(tmp) }()
	l := &lab{dir: filepath.Dir(self), tmp: tmp, env: os.Environ(), sim: simulated}
	l.r = &report{Time: time.Now().UTC(), Simulated: simulated, Host: l.host(), Suite: []suite{}, Traces: []trace{}, Overhead: []overhead{}, Failures: []string{}}
	if simulated {
		stack, err := sim.Extract(filepath.Join(tmp, "sim"))
		if err != nil {
			return nil, err
		}
		l.env = append(l.env, "LD_LIBRARY_PATH="+stack.Dir)
	} else if l.r.Host.Driver == "" {
		return nil, fmt.Errorf("no NVIDIA driver is loaded here (-sim uses the simulated stack)")
	}
	l.check()
	l.programs()
	if tests {
		if err := l.suites(); err != nil {
			return nil, err
		}
	}
	return l.r, nil
}

// fail records a failure.
func (l *lab) fail(format string, args ...any) {
	l.r.Failures = append(l.r.Failures, fmt.Sprintf(format, args...))
}

func (l *lab) ingero() string { return filepath.Join(l.dir, "ingero") }

func (l *lab) host() host {
	h := host{Arch: runtime.GOARCH, CPUs: runtime.NumCPU(), GPUs: []string{}}
	if text, err := os.ReadFile("/proc/sys/kernel/osrelease"); err == nil {
		h.Kernel = strings.TrimSpace(string(text))
	}
	if text, err := os.ReadFile("/proc/driver/nvidia/version"); err == nil {
		h.Driver, _, _ = strings.Cut(string(text), "\n")
	}
	if out, err := exec.Command("nvidia-smi", "--query-gpu=name,driver_version,memory.total", "--format=csv,noheader").Output(); err == nil {
		h.GPUs = strings.Split(strings.TrimSpace(string(out)), "\n")
	}
	if out, err := exec.Command("python3", "--version").Output(); err == nil {
		h.Python = strings.TrimSpace(string(out))
	}
	return h
}

// check stores the output of ingero check.
func (l *lab) check() {
	out, err := exec.Command(l.ingero(), "check", "--json").Output()
	if json.Valid(out) {
		l.r.Check = out
	}
	if err != nil {
		l.fail("ingero check: %v", err)
	}
}

func write(path string, r *report) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(text, '\n'), 0o644)
}
