package sim

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"ingero/internal/testkit"
)

func shell(line string) *exec.Cmd { return exec.Command("sh", "-c", line) }

// command returns a command for a program of the stack. Arguments NAME=VALUE before the program's
// own are set in its environment.
func (s Stack) command(program string, args ...string) *exec.Cmd {
	var env []string
	for len(args) > 0 && strings.Contains(args[0], "=") && args[0][0] != '-' {
		env, args = append(env, args[0]), args[1:]
	}
	cmd := exec.Command(s.Program(program), args...)
	if strings.HasSuffix(program, ".py") {
		cmd = exec.Command("python3", append([]string{s.Script(program)}, args...)...)
	}
	cmd.Env = append(os.Environ(), env...)
	return cmd
}

// counts are the numbers in a program's JSON line.
type counts map[string]any

func (c counts) n(key string) int64 {
	f, ok := c[key].(float64)
	if !ok {
		return -1
	}
	return int64(f)
}

// lines runs a program to its end and returns its JSON lines.
func (s Stack) lines(t *testing.T, program string, args ...string) ([]counts, *os.ProcessState) {
	t.Helper()
	cmd := s.command(program, args...)
	c := testkit.Start(t, cmd)
	c.CloseStdin()
	if err := c.Wait(); err != nil {
		t.Fatalf("%s %v: %v\n%s", program, args, err, c.Stderr())
	}
	var out []counts
	for _, line := range strings.Split(strings.TrimSpace(c.Stdout()), "\n") {
		if !strings.HasPrefix(line, "{") {
			continue
		}
		var one counts
		if err := json.Unmarshal([]byte(line), &one); err != nil {
			t.Fatalf("%s prints %q: %v", program, line, err)
		}
		out = append(out, one)
	}
	return out, cmd.ProcessState
}

// result runs a program that prints one JSON line.
func (s Stack) result(t *testing.T, program string, args ...string) counts {
	t.Helper()
	out, _ := s.lines(t, program, args...)
	if len(out) != 1 {
		t.Fatalf("%s %v printed %d JSON lines, want 1", program, args, len(out))
	}
	return out[0]
}

// want compares some numbers of a result.
func want(t *testing.T, got counts, expect map[string]int64) {
	t.Helper()
	have := map[string]int64{}
	for key := range expect {
		have[key] = got.n(key)
	}
	if diff := cmp.Diff(expect, have); diff != "" {
		t.Errorf("%s (-want +got):\n%s", got["program"], diff)
	}
}

func TestWorkloads(t *testing.T) {
	s := extract(t)
	for _, tt := range []struct {
		name string
		args []string
		want map[string]int64
	}{
		{"train", []string{"--steps", "20", "--launches", "7", "--alloc-every", "10"},
			map[string]int64{"steps": 20, "cudaLaunchKernel": 140, "cudaMemcpyAsync": 20, "cudaStreamSynchronize": 20,
				"cudaMalloc": 3, "cudaFree": 3, "bytes": 20 << 20, "errors": 0}},
		{"train", []string{"INGERO_SIM_STUB=slow", "--steps", "5", "--threads", "3", "--pageable"},
			map[string]int64{"steps": 15, "cudaLaunchKernel": 300, "cudaMalloc": 3, "cudaFree": 3, "errors": 0}},
		{"infer", []string{"--requests", "10", "--rate", "0", "--threads", "2", "--launches", "3"},
			map[string]int64{"requests": 20, "cudaLaunchKernel": 60, "cudaMemcpyAsync": 40, "cudaStreamSynchronize": 20, "errors": 0}},
		{"infer", []string{"--requests", "5", "--rate", "200", "--pageable"},
			map[string]int64{"requests": 5, "errors": 0}},
		{"loader", []string{"--batches", "11", "--workers", "3", "--load-us", "10"},
			map[string]int64{"batches": 11, "cudaLaunchKernel": 110, "cudaMemcpyAsync": 11, "cudaStreamSynchronize": 11, "errors": 0}},
		{"loader", []string{"--batches", "6", "--use-threads", "--stall-every", "3", "--stall-ms", "5"},
			map[string]int64{"batches": 6, "errors": 0}},
	} {
		t.Run(tt.name, func(t *testing.T) { want(t, s.result(t, tt.name, tt.args...), tt.want) })
	}
}

func TestTrainForksWorkers(t *testing.T) {
	s := extract(t)
	out, _ := s.lines(t, "train", "--steps", "5", "--fork", "3", "--launches", "4")
	if len(out) != 3 {
		t.Fatalf("%d JSON lines, want one of each worker", len(out))
	}
	pids := map[int64]bool{}
	for _, c := range out {
		want(t, c, map[string]int64{"steps": 5, "cudaLaunchKernel": 20, "errors": 0})
		pids[c.n("pid")] = true
	}
	if len(pids) != 3 {
		t.Errorf("workers' pids are %v", pids)
	}
}

func TestPython(t *testing.T) {
	testkit.NeedTool(t, "python3")
	s := extract(t)
	for _, tt := range []struct {
		script string
		args   []string
		want   map[string]int64
	}{
		{"train.py", []string{"--steps", "10", "--launches", "5", "--alloc-every", "5", "--threads", "2"},
			map[string]int64{"steps": 20, "cudaLaunchKernel": 100, "cudaMemcpyAsync": 20, "cudaStreamSynchronize": 20,
				"cudaMalloc": 6, "cudaFree": 4}},
		{"train.py", []string{"--steps", "2", "--lib", s.Libcudart13}, map[string]int64{"steps": 2, "cudaLaunchKernel": 40}},
		{"infer.py", []string{"--requests", "5", "--rate", "0"},
			map[string]int64{"requests": 5, "cudaLaunchKernel": 40, "cudaMemcpyAsync": 10, "cudaStreamSynchronize": 5}},
	} {
		t.Run(tt.script, func(t *testing.T) { want(t, s.result(t, tt.script, tt.args...), tt.want) })
	}
}

// Python programs see the simulated GPU's documented behavior.
func TestSemantics(t *testing.T) {
	testkit.NeedTool(t, "python3")
	s := extract(t)
	for _, tt := range [][2]string{
		{"semantics.py", "spin"}, {"semantics.py", "yield"}, {"semantics.py", "block"}, {"objects.py", "spin"}, {"device.py", "spin"}, {"graphs.py", "spin"},
		{"nccl.py", "spin"}, {"nccl.py", "yield"}, {"nccl.py", "block"},
	} {
		t.Run(tt[0]+" "+tt[1], func(t *testing.T) {
			t.Parallel()
			cmd := exec.Command("python3", filepath.Join("testdata", tt[0]), s.Dir)
			cmd.Env = append(os.Environ(), "INGERO_SIM_SYNC="+tt[1], "PYTHONDONTWRITEBYTECODE=1")
			if err := testkit.Start(t, cmd).Wait(); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestHoldWaitsForALine(t *testing.T) {
	s := extract(t)
	programs := [][]string{
		{"train", "--steps", "2", "--hold"}, {"infer", "--requests", "2", "--hold"},
		{"loader", "--batches", "2", "--hold"}, {"calls", "launch", "5", "--start-on-stdin"},
		{"multi", "--hold"}, {"late"}, {"memory", "--hold"}, {"advanced", "--hold"},
		{"torch", "--hold"}, {"cuda13", "--hold"}, {"static", "--hold"}, {"jit", "--hold"}, {"graph", "--hold"}, {"calib", "push", "3"},
	}
	for _, args := range programs {
		t.Run(args[0], func(t *testing.T) {
			c := testkit.Start(t, s.command(args[0], args[1:]...))
			if got, want := c.Line("ready "), fmt.Sprintf("ready %d", c.PID()); got != want {
				t.Errorf("first line %q, want %q", got, want)
			}
			if out := c.Stdout(); strings.Contains(out, "{") {
				t.Errorf("it went on before the line: %s", out)
			}
			c.Send("")
			if err := c.Wait(); err != nil {
				t.Error(err)
			}
			if !strings.Contains(c.Stdout(), `"program":"`+args[0]) {
				t.Errorf("no result: %s", c.Stdout())
			}
		})
	}
}

// --help goes to stdout and names every option; a wrong argument is an error.
func TestHelp(t *testing.T) {
	s := extract(t)
	for _, program := range []string{"train", "infer", "loader", "calls", "multi", "late", "calib", "memory", "advanced", "ddp",
		"torch", "cuda13", "static", "jit", "graph"} {
		t.Run(program, func(t *testing.T) {
			out, err := s.command(program, "--help").Output()
			if err != nil || !strings.HasPrefix(string(out), "usage: "+program) {
				t.Errorf("--help: %v, %q", err, out)
			}
			err = s.command(program, "--no-such-option").Run()
			if e, ok := err.(*exec.ExitError); !ok || e.ExitCode() != 2 {
				t.Errorf("--no-such-option: %v, want exit status 2", err)
			}
		})
	}
}

// A synchronize lasts as long as the GPU works, whether it spins or blocks.
func TestSynchroniseWaitsForTheGPU(t *testing.T) {
	s := extract(t)
	const work = 10 * 10 * 5 * time.Millisecond
	for _, mode := range []string{"spin", "block", "yield"} {
		begin := time.Now()
		s.lines(t, "train", append([]string{"INGERO_SIM_SYNC=" + mode}, gpuBound...)...)
		if took := time.Since(begin); took < work {
			t.Errorf("%s: ran %v, less than the GPU's %v", mode, took, work)
		}
	}
}

var gpuBound = []string{"--steps", "10", "--launches", "10", "--kernel-us", "5000", "--cpu-us", "0", "--alloc-every", "0"}

func TestCalib(t *testing.T) {
	s := extract(t)
	for _, fn := range []string{"push", "stepped", "stub"} {
		got := s.result(t, "calib", fn, "1000", "--batches", "5")
		want(t, got, map[string]int64{"calls": 5000})
		if got.n("best_ps") <= 0 || got.n("median_ps") < got.n("best_ps") {
			t.Errorf("%s: %v", fn, got)
		}
		want(t, s.result(t, "calib", fn, "1000", "--seccomp"), map[string]int64{"calls": 1000, "best_ps": -1})
	}
}

func TestHangStaysInTheCall(t *testing.T) {
	s := extract(t)
	c := testkit.Start(t, s.command("multi", "--case", "hang"))
	c.Line(fmt.Sprintf("in-call %d", c.PID()))
	c.Signal(syscall.SIGKILL)
	if err := c.Wait(); err == nil || !strings.Contains(err.Error(), "killed") {
		t.Errorf("hang ended with %v", err)
	}
}
