package probes_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"ingero/internal/probes"
	"ingero/internal/testkit"
	"ingero/pkg/events"
)

// nvidiaCaller loads a library, calls functions of it with zeros, a hundred
// times each, and says what they returned the last time.
const nvidiaCaller = `#include <dlfcn.h>
#include <stdio.h>
int main(int c, char **v)
{
	void *h = dlopen(v[1], RTLD_NOW);
	if (!h) { fprintf(stderr, "%s\n", dlerror()); return 1; }
	puts("ready"); fflush(stdout); getchar();
	for (int i = 2; i < c; i++) {
		int (*f)(long, long, long, long, long, long, long, long, long, long, long) = dlsym(h, v[i]), r = 0;
		if (!f) { fprintf(stderr, "%s\n", dlerror()); return 1; }
		for (int n = 0; n < 100; n++) r = f(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
		printf("%s %d\n", v[i], r);
	}
	return 0;
}
`

// NVIDIA's own libraries: every row finds its functions, none at a dear place
// where the simulated ones have a cheap one, and calls are counted exactly with
// the result that the caller got. Without a GPU that is an error.
func TestNVIDIALibraries(t *testing.T) {
	testkit.NeedBPF(t)
	testkit.NeedTool(t, "gcc")
	dir := t.TempDir()
	caller := filepath.Join(dir, "caller")
	if err := os.WriteFile(caller+".c", []byte(nvidiaCaller), 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("gcc", "-w", "-o", caller, caller+".c", "-ldl").CombinedOutput(); err != nil {
		t.Fatalf("gcc: %v\n%s", err, out)
	}
	for _, tt := range []struct {
		name  string
		lib   events.Library
		calls []string
	}{
		{"libcudart.so", events.LibCudart, []string{"cudaLaunchKernel", "cudaMalloc", "cudaMemcpyAsync", "cudaStreamSynchronize", "cudaDeviceSynchronize"}},
		{"libcuda.so", events.LibCuda, []string{"cuLaunchKernel", "cuMemAlloc_v2", "cuMemcpyHtoDAsync_v2", "cuStreamSynchronize", "cuCtxSynchronize"}},
	} {
		for _, path := range testkit.NVIDIALibraries(t, tt.name) {
			t.Run(filepath.Base(path), func(t *testing.T) {
				tr := tracer(t, probes.Options{})
				child := testkit.Start(t, exec.Command(caller, append([]string{path}, tt.calls...)...))
				child.Line("ready")
				if err := tr.Trace(uint32(child.PID()), probes.Target{}); err != nil {
					t.Fatal(err)
				}
				a := attach(t, tr, path, tt.lib)
				t.Logf("%d probes, %d of them at a dear place", a.Probes, a.Stepped)
				for _, r := range a.Reports {
					t.Log(r.Why)
				}
				if a.Probes < 40 || a.Stepped > a.Probes/10 {
					t.Errorf("%d probes, %d of them at a dear place", a.Probes, a.Stepped)
				}
				child.Say("go")
				if err := child.Wait(); err != nil {
					t.Fatal(err)
				}
				compareResults(t, tr, child.Stdout(), uint32(child.PID()), tt.calls)
			})
		}
	}
}

// compareResults compares what the caller said with what was seen.
func compareResults(t *testing.T, tr *probes.Tracer, said string, pid uint32, calls []string) {
	t.Helper()
	results := map[events.Op]int32{}
	for line := range strings.Lines(said) {
		var symbol string
		var result int32
		if n, _ := fmt.Sscan(line, &symbol, &result); n == 2 {
			op, _ := events.OpByName(symbol)
			results[op] = result
		}
	}
	if len(results) != len(calls) {
		t.Fatalf("the caller told of %d functions, want %d", len(results), len(calls))
	}
	outermost := map[events.Op]int{}
	for _, c := range drain(t, tr) {
		if c.Parent != 0 || c.PID != pid {
			continue
		}
		outermost[c.Op]++
		if want, ok := results[c.Op]; ok && c.Result != want {
			t.Errorf("%v returned %d, the caller got %d", c.Op, c.Result, want)
		}
	}
	for op := range results {
		if outermost[op] != 100 {
			t.Errorf("%v: saw %d calls, want 100", op, outermost[op])
		}
	}
}
