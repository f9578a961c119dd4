package export_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"ingero/internal/export"
	"ingero/internal/query"
	"ingero/internal/store"
	"ingero/internal/store/segment"
	"ingero/internal/testkit"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

// recordStacks makes a database of a few calls with known stacks, and one without.
func recordStacks(t *testing.T) *query.Reader {
	t.Helper()
	path := filepath.Join(t.TempDir(), "x.db")
	db, err := store.Open(store.Options{Path: path, Session: segment.Session{ID: "s", Node: "n", Started: began}})
	if err != nil {
		t.Fatal(err)
	}
	python := events.Frame{Kind: events.FramePython, Func: "step", File: "train;1.py", Line: 8}
	main := events.Frame{Kind: events.FrameNative, Func: "main", Offset: 4, Module: "/bin/python3"}
	cuda := events.Frame{Kind: events.FrameNative, IP: 7, Module: "/lib/libcudart.so"}
	stacks := []events.Stack{{ID: 1, PID: 4821, Frames: []events.Frame{cuda, python, main}}, {ID: 2, PID: 4821, Cut: true, Frames: []events.Frame{cuda, {Kind: events.FrameNative, IP: 9, Module: "/lib/liba.so"}, main}}}
	call := func(name string, stack uint32, level uint8, at, ns, runnable int64, args ...uint64) events.Call {
		c := events.Call{Start: began.UnixNano() + at, Duration: ns, OnCPU: ns - runnable, Runnable: runnable, PID: 4821, TID: 4821,
			Op: testkit.Op(name), Weight: 1, Stack: stack, StackLevel: level}
		copy(c.Args[:], args)
		return c
	}
	nested := call("cuMemAlloc", 2, 0, 5, 50, 0, 4096, 0x1000)
	nested.Flags, nested.Parent = events.CallNested, testkit.Op("cudaMalloc")
	calls := []events.Call{
		call("cudaLaunchKernel", 1, 2, 0, 100, 0, launched.Handle), call("cudaLaunchKernel", 0, 0, 2, 100, 0, launched.Handle),
		call("cudaStreamSynchronize", 1, 0, 3, 1000, 300), nested, call("cudaMalloc", 2, 0, 4, 60, 0, 4096, 0x1000),
		call("cudaMalloc", 2, 1, 6, 60, 0, 100, 0x2000), call("cudaMalloc", 1, 0, 7, 60, 0, 77, 0x3000), call("cudaFree", 0, 0, 8, 10, 0, 0x3000),
		call("cudaStreamSynchronize", 99, 0, 9, 10, 0),
	}
	last := &tick.Tick{Time: began, Started: began, Seq: 1, Final: true, Processes: []tick.Process{{PID: 4821, Comm: "python3"}}}
	if err := errors.Join(db.Batch(&tick.Batch{Calls: calls, Stacks: stacks, Functions: []events.Function{launched}}), db.Tick(last), db.Close()); err != nil {
		t.Fatal(err)
	}
	return open(t, path)
}

func TestFolded(t *testing.T) {
	r := recordStacks(t)
	const main = "python3 (4821);main;"
	const step = main + "step (train:1.py:8);"
	const cut = "python3 (4821);[stack truncated];main;(liba.so);"
	for value, want := range map[string][]string{
		"wall": {"python3 (4821);[stack not known];cudaStreamSynchronize 10", cut + "cudaMalloc 300", step + "cudaLaunchKernel;[GPU] void gpu::add<float>(float*, int) 1600",
			step + "cudaMalloc 60", step + "cudaStreamSynchronize 1000"},
		"gpu-wait": {"python3 (4821);[stack not known];cudaStreamSynchronize 10", step + "cudaStreamSynchronize 700"},
		"runnable": {step + "cudaStreamSynchronize 300"},
		"launches": {step + "cudaLaunchKernel;[GPU] void gpu::add<float>(float*, int) 16"},
		"memory":   {cut + "cudaMalloc 4496"},
	} {
		for i := range export.StackValues {
			v := &export.StackValues[i]
			if v.Name != value {
				continue
			}
			var b bytes.Buffer
			res, err := export.Folded(context.Background(), &b, r, query.Filter{Session: query.AllSessions}, v)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(strings.Join(want, "\n")+"\n", b.String()); d != "" {
				t.Errorf("%s (-want +got):\n%s", value, d)
			}
			if res.Without != 2 || res.Sessions != 1 {
				t.Errorf("%+v", res)
			}
		}
	}
}

// Go's own profile reader accepts a profile, with the same numbers.
func TestPprof(t *testing.T) {
	testkit.NeedTool(t, "go")
	r := recordStacks(t)
	var b bytes.Buffer
	if _, err := export.Pprof(context.Background(), &b, r, query.Filter{Session: query.AllSessions}); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "x.pb.gz")
	if err := os.WriteFile(file, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	for value, want := range map[string][]string{
		"wall":       {"1.60us", "cudaLaunchKernel", "step", "train;1.py:8", "main"},
		"gpu_wait":   {"700ns", "cudaStreamSynchronize"},
		"gpu_memory": {"4.39kB", "cudaMalloc", "[stack truncated]"},
	} {
		cmd := exec.Command("go", "tool", "pprof", "-sample_index="+value, "-lines", "-unit=minimum", "-traces", file)
		cmd.Env = append(os.Environ(), "PPROF_TMPDIR="+t.TempDir())
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		for _, w := range want {
			if !strings.Contains(string(out), w) {
				t.Errorf("%s: no %q in\n%s", value, w, out)
			}
		}
	}
}
