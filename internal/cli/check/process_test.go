package check

import (
	"encoding/json"
	"errors"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"ingero/internal/proc"
	"ingero/internal/testkit"
	"ingero/internal/wire"
	"ingero/sim"
)

// line returns the line with an ID.
func line(t *testing.T, r *wire.Check, id string) *wire.CheckLine {
	t.Helper()
	i := slices.IndexFunc(r.Lines, func(l wire.CheckLine) bool { return l.ID == id })
	if i < 0 {
		t.Fatalf("no line %q in %+v", id, r.Lines)
	}
	return &r.Lines[i]
}

// look reports on a child of the test.
func look(t *testing.T, c *testkit.Child) wire.Check {
	t.Helper()
	r, err := Process(t.Context(), Machine{}, proc.Names{}, uint32(c.PID()))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestProcess(t *testing.T) {
	testkit.NeedRoot(t)
	stack, err := sim.Extract(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	c := testkit.Start(t, exec.Command(stack.Program("calls"), "launch", "1", "--start-on-stdin"))
	c.Line("ready")
	r := look(t, c)
	if !r.Ready || r.Comm != "calls" {
		t.Errorf("report %+v, want one of calls that is ready", r)
	}
	for id, lib := range map[string]struct{ path, probed, unprobed string }{
		"cudart": {stack.Libcudart, "cudaLaunchKernel", "__cudaPushCallConfiguration"},
		"cuda":   {stack.Libcuda, "cuLaunchKernel", ""},
	} {
		l := line(t, &r, id)
		if l.Value != lib.path || l.State != OK || l.Probes < 20 || l.BuildID == "" {
			t.Errorf("%s: %+v", id, l)
		}
		if len(l.Lacks) > 0 || lib.unprobed != "" && !slices.Contains(l.Unprobed, lib.unprobed) {
			t.Errorf("%s lacks %q, has %q without a row; want nothing, and %s", id, l.Lacks, l.Unprobed, lib.unprobed)
		}
		if slices.Contains(l.Lacks, lib.probed) || slices.Contains(l.Unprobed, lib.probed) {
			t.Errorf("%s: %s is traced", id, lib.probed)
		}
	}
	b, err := json.Marshal(r)
	if err != nil || !strings.Contains(string(b), `"unprobed":[`) {
		t.Errorf("JSON %s, %v", b, err)
	}
	text := Text(&r)
	for _, want := range []string{"what a trace sees of calls (", "CUDA runtime", "CUDA driver", "not now", "functions", "files name ", "not traced:"} {
		if !strings.Contains(text, want) {
			t.Errorf("the text lacks %q:\n%s", want, text)
		}
	}
	fits(t, text)
}

// A linked-in runtime is reported, stripped or not.
func TestProcessWithLinkedInRuntime(t *testing.T) {
	testkit.NeedRoot(t)
	testkit.NeedTool(t, "gcc")
	dir := t.TempDir()
	const code = `#include <dlfcn.h>
#include <stdio.h>
int cudaLaunchKernel(void *f) { return f != 0; }
__attribute__((section(".nvFatBinSegment"), used)) static const char fat[8] = "gpu";
int main(int argc, char **argv) { if (!dlopen(argv[1], RTLD_NOW)) return 1; puts("ready"); fflush(stdout); getchar(); return cudaLaunchKernel(0); }`
	gcc := func(code, name string, args ...string) string {
		path := filepath.Join(dir, name)
		cmd := exec.Command("gcc", append([]string{"-O1", "-x", "c", "-", "-o", path}, args...)...)
		cmd.Stdin = strings.NewReader(code)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("gcc: %v\n%s", err, out)
		}
		return path
	}
	driver := gcc("int cuInit(unsigned f) { return f; }", "libcuda.so.1", "-shared", "-fPIC")
	for name, tt := range map[string]struct {
		args  []string
		id    string
		state string
		note  string
	}{
		"job":      {nil, "cudart", OK, "linked in, found by its symbols"},
		"stripped": {[]string{"-s"}, "linked-in", Lack, "but no runtime calls"},
	} {
		t.Run(name, func(t *testing.T) {
			c := testkit.Start(t, exec.Command(gcc(code, name, tt.args...), driver))
			c.Line("ready")
			r := look(t, c)
			l := line(t, &r, tt.id)
			if l.State != tt.state || !strings.Contains(l.Note, tt.note) || !strings.Contains(l.Value, filepath.Join(dir, name)) {
				t.Errorf("line %+v, want %s and %q", l, tt.state, tt.note)
			}
			if l := line(t, &r, "cuda"); !slices.Contains(l.Lacks, "cuLaunchKernel") || !slices.IsSorted(l.Lacks) || len(l.Unprobed) > 0 {
				t.Errorf("the driver has one function, of a row: %+v", l)
			}
		})
	}
}

func TestProcessOfNothing(t *testing.T) {
	testkit.NeedRoot(t)
	c := testkit.Start(t, exec.Command("sleep", "60"))
	testkit.Eventually(t, "sleep to run", func() bool { p, err := (proc.FS{}).Process(uint32(c.PID())); return err == nil && p.Comm == "sleep" })
	r := look(t, c)
	if l := line(t, &r, "libraries"); !r.Ready || l.Value != "no CUDA library" {
		t.Errorf("report %+v", r)
	}
	if _, err := Process(t.Context(), Machine{}, proc.Names{}, 1<<22-1); !errors.Is(err, proc.ErrExited) {
		t.Errorf("a process that is not there: %v, want %v", err, proc.ErrExited)
	}
}
