package sim

import (
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The libraries' counts equal the program's own counts of calls and launches.
func TestCounts(t *testing.T) {
	s := extract(t)
	c, err := NewCounts(filepath.Join(t.TempDir(), "counts"))
	if err != nil {
		t.Fatal(err)
	}
	got := s.result(t, "torch", "INGERO_SIM_ZERO=1", c.Env(), "--steps", "10")
	counted, err := c.Read()
	if err != nil {
		t.Fatal(err)
	}
	n := func(name string) int64 { return int64(counted[name]) }
	wantCounts(t, got, "calls", map[string]int64{"cudaLaunchKernel": n("cudaLaunchKernel"), "cudaMemcpyAsync": n("cudaMemcpyAsync"),
		"cudaMalloc": n("cudaMalloc"), "cudaFree": n("cudaFree")})
	wantCounts(t, got, "launches", map[string]int64{kernelGemm: n(kernelGemm), kernelMean: n(kernelMean)})
	if diff := cmp.Diff(n("cudaLaunchKernel"), n("cuLaunchKernel")); diff != "" || n("cuLaunchKernel") == 0 {
		t.Errorf("launches of the runtime and of the driver (-runtime +driver):\n%s", diff)
	}
}
