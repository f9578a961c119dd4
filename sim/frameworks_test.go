package sim

import (
	"debug/elf"
	"path/filepath"
	"strings"
	"testing"

	"ingero/internal/testkit"
)

const (
	kernelGemm = "ampere_sgemm_128x64_nn"
	kernelMean = "_ZN2at6native13reduce_kernelILi512ELi1ENS0_8ReduceOpIfNS0_10MeanOpsIffffEEjfLi4EEEEEvT1_"
)

// Each program's calls and kernels are those that its options specify.
func TestFrameworks(t *testing.T) {
	s := extract(t)
	for _, tt := range []struct {
		program         string
		args            []string
		calls, launches map[string]int64
	}{
		{"torch", []string{"--steps", "10"},
			map[string]int64{"cudaLaunchKernel": 130, "cudaMemcpyAsync": 20, "cudaMalloc": 2, "cudaFree": 2},
			map[string]int64{kernelGemm: 60, kernelMean: 10}},
		{"torch", []string{"--steps", "10", "--graph", "--warmup", "2", "--expandable"},
			map[string]int64{"cudaLaunchKernel": 39, "cudaGraphLaunch": 8, "cudaStreamBeginCapture": 1, "cuMemCreate": 2, "cuMemRelease": 2},
			map[string]int64{kernelGemm: 18, kernelMean: 3}},
		{"cuda13", []string{"--steps", "10"},
			map[string]int64{"__cudaGetKernel": 3, "__cudaLaunchKernel": 130}, map[string]int64{kernelGemm: 60}},
		{"static", []string{"--steps", "10"}, map[string]int64{"cudaLaunchKernel": 130}, map[string]int64{kernelGemm: 60}},
		{"static-stripped", []string{"--steps", "10"}, map[string]int64{"cudaLaunchKernel": 130}, map[string]int64{kernelGemm: 60}},
		{"jit", []string{"--steps", "10"},
			map[string]int64{"cuLaunchKernel": 40, "cuModuleLoadData": 4, "cuMemAllocAsync": 20, "cuMemFreeAsync": 20},
			map[string]int64{"loop_add_fusion_0": 10, "input_reduce_fusion_1": 10}},
		{"jit", []string{"--steps", "10", "--graph"},
			map[string]int64{"cuLaunchKernel": 4, "cuGraphLaunch": 10, "cuGraphInstantiateWithParams": 1}, nil},
		{"jit", []string{"--steps", "10", "--like", "triton", "--kernels", "2"},
			map[string]int64{"cuLaunchKernelEx": 20, "cuModuleGetFunction": 2}, map[string]int64{"triton_poi_fused_add_relu_1": 10}},
		{"graph", []string{"--steps", "10"},
			map[string]int64{"cudaGraphLaunch": 10, "cudaGraphInstantiate": 1, "cudaLaunchKernel": 20}, nil},
		{"graph", []string{"--steps", "10", "--recapture"},
			map[string]int64{"cudaStreamBeginCapture": 10, "cudaGraphInstantiate": 10, "cudaGraphExecDestroy": 10}, nil},
		{"graph", []string{"--steps", "10", "--update", "--cold"},
			map[string]int64{"cudaStreamEndCapture": 10, "cudaGraphExecUpdate": 9, "cudaGraphInstantiate": 1, "cudaLaunchKernel": 100}, nil},
		{"graph", []string{"--steps", "10", "--params"},
			map[string]int64{"cudaGraphAddKernelNode": 10, "cudaGraphExecKernelNodeSetParams": 9}, nil},
		{"graph", []string{"--clone"}, map[string]int64{"cudaGraphClone": 1, "cudaGraphDestroy": 2}, nil},
	} {
		t.Run(tt.program+strings.Join(tt.args, ""), func(t *testing.T) {
			got := s.result(t, tt.program, append([]string{"INGERO_SIM_ZERO=1"}, tt.args...)...)
			want(t, got, map[string]int64{"errors": 0})
			wantCounts(t, got, "calls", tt.calls)
			if tt.launches != nil {
				wantCounts(t, got, "launches", tt.launches)
			}
		})
	}
}

// static contains the runtime and hides it from the loader; one of its two variants has a symbol
// table.
func TestStaticRuntime(t *testing.T) {
	for _, arch := range arches {
		for program, symbols := range map[string]bool{"static": true, "static-stripped": false} {
			t.Run(arch+"/"+program, func(t *testing.T) {
				f, err := elf.Open(filepath.Join("prebuilt", arch, program))
				if err != nil {
					t.Fatal(err)
				}
				defer f.Close()
				libs, err := f.ImportedLibraries()
				if err != nil {
					t.Fatal(err)
				}
				for _, l := range libs {
					if strings.HasPrefix(l, "libcudart") {
						t.Errorf("it needs %s", l)
					}
				}
				for _, s := range exports(t, f) {
					if strings.HasPrefix(s.Name, "cuda") {
						t.Errorf("it exports %s", s.Name)
					}
				}
				found := false
				syms, err := f.Symbols()
				if err != nil && symbols {
					t.Fatal(err)
				}
				for _, s := range syms {
					found = found || s.Name == "cudaLaunchKernel"
				}
				if found != symbols {
					t.Errorf("cudaLaunchKernel in its symbol table: %v, want %v", found, symbols)
				}
			})
		}
	}
}

// CUDA_VISIBLE_DEVICES selects, orders and ends the list of devices.
func TestVisibleDevices(t *testing.T) {
	testkit.NeedTool(t, "python3")
	s := extract(t)
	script := `import ctypes, sys
lib = ctypes.CDLL(sys.argv[1])
n, ids = ctypes.c_int(), []
if not lib.cuInit(0):
    lib.cuDeviceGetCount(ctypes.byref(n))
for i in range(n.value):
    u = ctypes.create_string_buffer(16)
    lib.cuDeviceGetUuid_v2(u, i)
    ids.append(str(u.raw[15]))
print(",".join(ids) or "none")`
	const uuid = "GPU-51515151-5151-5151-5151-5151515151"
	for visible, want := range map[string]string{
		"0": "0", "2,0": "2,0", "1,9,2": "1", "": "none", "-1": "none", "1,1": "none", "0,-1,2": "0",
		uuid + "03": "3", uuid + "03," + uuid + "01": "3,1", "GPU-5151": "none", "GPU-9": "none", "3,x": "3",
	} {
		t.Run(visible, func(t *testing.T) {
			cmd := shell(`exec python3 -c "$SCRIPT" "$LIB"`)
			cmd.Env = append(cmd.Environ(), "SCRIPT="+script, "LIB="+s.Libcuda, "INGERO_SIM_DEVICES=4", "CUDA_VISIBLE_DEVICES="+visible)
			c := testkit.Start(t, cmd)
			if err := c.Wait(); err != nil {
				t.Fatal(err)
			}
			if got := strings.TrimSpace(c.Stdout()); got != want {
				t.Errorf("devices %s, want %s", got, want)
			}
		})
	}
}
