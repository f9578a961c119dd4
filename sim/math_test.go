package sim

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"ingero/internal/testkit"
)

// The libraries outside prebuilt launch one kernel per operation, named by type, whose time follows
// from the shape.
func TestMathLibraries(t *testing.T) {
	testkit.NeedTool(t, "clang-14", "ld.lld-14", "python3")
	s := extract(t)
	if out, err := exec.CommandContext(t.Context(), "./build.sh", "--math", s.Dir).CombinedOutput(); err != nil {
		t.Fatalf("build.sh --math: %v\n%s", err, out)
	}
	c, err := NewCounts(filepath.Join(t.TempDir(), "counts"))
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("python3", filepath.Join("testdata", "mathlibs.py"), s.Dir)
	cmd.Env = append(os.Environ(), c.Env(), "PYTHONDONTWRITEBYTECODE=1")
	child := testkit.Start(t, cmd)
	if err := child.Wait(); err != nil {
		t.Fatalf("%v\n%s", err, child.Stderr())
	}
	counted, err := c.Read()
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]uint64{
		"ampere_sgemm_128x64_nn": 2, "ampere_sgemm_128x64_tn": 1, "ampere_dgemm_64x64_nt": 1,
		"ampere_bf16_s16816gemm_bf16_128x64_ldg8_f2f_stages_64x3_tn": 1,
		"implicit_convolve_sgemm_128x64_nn":                          2,
		"cudnn_ampere_scudnn_128x64_stridedB_splitK_small_nn_v1":     1,
		"_Z10dot_kernelIfLi128ELi0EEvPKT_S2_PS0_i":                   1,
		"cudaLaunchKernel": 9,
	} {
		if counted[name] != want {
			t.Errorf("%d of %s, want %d", counted[name], name, want)
		}
	}
}
