package probes

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"ingero/internal/testkit"
	"ingero/pkg/events"
)

// surfaceLibrary compiles functions into a library with these linker flags.
func surfaceLibrary(t *testing.T, functions []string, flags ...string) Object {
	t.Helper()
	testkit.NeedTool(t, "gcc")
	dir := t.TempDir()
	source := ""
	for _, f := range functions {
		source += fmt.Sprintf("int %s(void) { return 0; }\n", f)
	}
	for name, text := range map[string]string{"lib.c": source, "11.map": "libcudart.so.11.0 { global: *; };\n", "13.map": "libcudart.so.13 { global: *; };\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command("gcc", append([]string{"-shared", "-fPIC", "-o", "lib.so", "lib.c"}, flags...)...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("gcc: %v\n%s", err, out)
	}
	f, err := os.Open(filepath.Join(dir, "lib.so"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return Object{Path: f.Name(), Name: f.Name(), File: f, Lib: events.LibCudart}
}

// A function whose parameters changed gets the row of its version: the symbol's own, else the
// library's, else the latest.
func TestRowsByVersion(t *testing.T) {
	t.Parallel()
	functions := []string{"cudaGraphInstantiate", "cudaMemPrefetchAsync", "cudaMemPrefetchAsync_v2", "cudaMalloc"}
	for _, tt := range []struct {
		name  string
		flags []string
		want  []string
	}{
		{"symbols of 11", []string{"-Wl,--version-script=11.map"}, []string{"cudaGraphInstantiate.v11", "cudaMemPrefetchAsync.v12"}},
		{"symbols of 13", []string{"-Wl,--version-script=13.map"}, []string{"cudaGraphInstantiate", "cudaMemPrefetchAsync"}},
		{"symbols of 13 in a library of 11", []string{"-Wl,--version-script=13.map,-soname,libcudart.so.11.0"}, []string{"cudaGraphInstantiate", "cudaMemPrefetchAsync"}},
		{"library of 11", []string{"-Wl,-soname,libcudart.so.11.0"}, []string{"cudaGraphInstantiate.v11", "cudaMemPrefetchAsync.v12"}},
		{"library of 12", []string{"-Wl,-soname,libcudart.so.12"}, []string{"cudaGraphInstantiate", "cudaMemPrefetchAsync.v12"}},
		{"no version", nil, []string{"cudaGraphInstantiate", "cudaMemPrefetchAsync"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, sites, _, err := inspect(surfaceLibrary(t, functions, tt.flags...), events.Catalog, false)
			if err != nil {
				t.Fatal(err)
			}
			got := map[string]string{}
			for _, s := range sites {
				got[s.symbol] = events.Catalog[s.row].Name
			}
			want := map[string]string{"cudaGraphInstantiate": tt.want[0], "cudaMemPrefetchAsync": tt.want[1],
				"cudaMemPrefetchAsync_v2": "cudaMemPrefetchAsync", "cudaMalloc": "cudaMalloc"}
			if fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("rows are %v, want %v", got, want)
			}
		})
	}
}

// Functions of a library's API without a row are listed; other functions are not.
func TestUnprobed(t *testing.T) {
	o := surfaceLibrary(t, []string{"cudaMalloc", "cudaNew_v2", "__cudaNewer", "helper", "cuda_not_static", "ncclSend", "cudaGetDevice"})
	l, _, _, err := inspect(o, events.Catalog, false)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"__cudaNewer", "cudaGetDevice", "cudaNew_v2", "cuda_not_static"}
	if got := l.unprobed(events.LibCudart, events.Catalog); !slices.Equal(got, want) {
		t.Errorf("unprobed: %v, want %v", got, want)
	}
	if got := l.unprobed(events.LibNCCL, nil); !slices.Equal(got, []string{"ncclSend"}) {
		t.Errorf("unprobed of NCCL: %v", got)
	}
}
