package proc

import (
	"bytes"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"ingero/internal/testkit"
)

// A file may call the functions that it imports, and those whose names it contains. Functions that
// it defines, and similar names, do not count.
func TestFindUses(t *testing.T) {
	const imports = `extern int cudaMalloc(void **, unsigned long); extern int ncclAllReduce(void); extern int nvtxRangePop(void);
int use(void) { return cudaMalloc(0, 1) + ncclAllReduce() + nvtxRangePop(); }
`
	const names = `const char *const want[] = {"cuLaunchKernel", "cuMemAlloc_v2", "calls cuMemFree_v2", "cuCtxSynchronize failed", "cuNoSuchFunction", "nvtxMarkA"};
`
	library := []string{"-shared", "-fPIC"}
	for _, tt := range []struct {
		name, code string
		args       []string
		want       map[string]Use
	}{
		{"imports", imports, library, map[string]Use{"cudaMalloc": UseImported, "ncclAllReduce": UseImported, "nvtxRangePop": UseImported}},
		{"stripped", imports, append([]string{"-s"}, library...), map[string]Use{"cudaMalloc": UseImported, "ncclAllReduce": UseImported, "nvtxRangePop": UseImported}},
		{"names", names, library, map[string]Use{"cuLaunchKernel": UseNamed, "cuMemAlloc_v2": UseNamed}},
		{"both", imports + `const char *const want = "cudaMalloc";`, library, map[string]Use{"cudaMalloc": UseImported, "ncclAllReduce": UseImported, "nvtxRangePop": UseImported}},
		{"if it is there", `extern int cudaFree(void *) __attribute__((weak)); int use(void) { return cudaFree ? cudaFree(0) : 1; }`, library, map[string]Use{"cudaFree": UseImported}},
		{"its own", runtimeCode, library, map[string]Use{}},
		{"far in", strings.Repeat("x", 3*nameChunk), nil, map[string]Use{"cuLaunchKernel": UseNamed}},
		{"nothing of CUDA", "int use(void) { return 0; }", library, map[string]Use{}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.args == nil { // constants of many pieces, one of which begins at the name
				tt.code = `static const char before[] __attribute__((aligned(1), used)) = "` + tt.code + `"; const char *const want[] = {before, "cuLaunchKernel"};`
				tt.args = library
			}
			f, err := os.Open(compile(t, tt.code, "a.so", tt.args...))
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			got, err := FindUses(f)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("uses (-want +got):\n%s", diff)
			}
		})
	}
}

// A process may call the functions that its mapped code files may call.
func TestUses(t *testing.T) {
	library := compile(t, `const char *name(void) { return "cuLaunchKernel"; }`, "libname.so", "-shared", "-fPIC")
	cmd := exec.Command(compile(t, `#include <stdio.h>
extern int cudaMalloc(void) __attribute__((weak)); extern const char *name(void);
int main(void) { puts(name()); fflush(stdout); getchar(); return cudaMalloc ? cudaMalloc() : 0; }`,
		"use", "-x", "none", library))
	c := testkit.Start(t, cmd)
	c.Line("cuLaunchKernel")
	var finder Finder
	for range 2 { // read, then cached
		uses, err := finder.Uses(uint32(c.PID()))
		if err != nil {
			t.Fatal(err)
		}
		want := map[string]Use{"cudaMalloc": UseImported, "cuLaunchKernel": UseNamed}
		if diff := cmp.Diff(want, uses); diff != "" {
			t.Errorf("uses (-want +got):\n%s", diff)
		}
	}
	if _, err := finder.Uses(1 << 30); err == nil {
		t.Error("no error of a process that is not there")
	}
}

func FuzzFindUses(f *testing.F) {
	for _, path := range []string{"/bin/true", compile(f, `extern int cudaMalloc(void); int use(void) { return cudaMalloc(); }`, "a.so", "-shared", "-fPIC")} {
		b, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		uses, err := FindUses(bytes.NewReader(b))
		if err != nil && uses != nil {
			t.Errorf("%v, and %v", uses, err)
		}
		if s, err := FindSymbols(bytes.NewReader(b)); err != nil && len(s.Functions) > maxAPIFuncs {
			t.Errorf("%d functions", len(s.Functions))
		}
	})
}
