package proc

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"ingero/internal/testkit"
	"ingero/pkg/events"
)

// compile builds an ELF file from C code.
func compile(t testing.TB, code, name string, args ...string) string {
	t.Helper()
	testkit.NeedTool(t, "gcc")
	path := filepath.Join(t.TempDir(), name)
	cmd := exec.Command("gcc", append([]string{"-O1", "-x", "c", "-", "-o", path}, args...)...)
	cmd.Stdin = strings.NewReader(code)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("gcc: %v\n%s", err, out)
	}
	return path
}

// runtimeCode has runtime functions, similar names, names that end in another's, and an undefined
// function.
const runtimeCode = `
extern int cuInit(unsigned);
int cudaMalloc(void **p, unsigned long n) { return n != 0; }
int __cudaLaunchKernel(void) { return 1; }
int cudaLaunchKernel(void) { return __cudaLaunchKernel(); }
__attribute__((visibility("hidden"))) int cudaFree(void *p) { return p != 0; }
int cudart_internal(void) { return 2; }
int custom(void) { return 3; }
int my_cudaMemcpy(void) { return 4; }
int cudaDeviceCount = 5;
`

func names(s Symbols) (out []string) {
	for _, f := range s.Functions {
		out = append(out, f.Name)
	}
	slices.Sort(out)
	return out
}

func TestFindSymbols(t *testing.T) {
	const code, main = runtimeCode, "int main(void) { return cudaLaunchKernel() + cudaFree(0); }"
	all := []string{"__cudaLaunchKernel", "cudaFree", "cudaLaunchKernel", "cudaMalloc"}
	exported := []string{"__cudaLaunchKernel", "cudaLaunchKernel", "cudaMalloc"}
	fatbin := `__attribute__((section(".nv_fatbin"), used)) static const char fat[8] = "gpu";`
	for _, tt := range []struct {
		name, code string
		args       []string
		want       []string
		gpu        bool
	}{
		{"program", code + main, nil, all, false},
		{"library", code, []string{"-shared", "-fPIC"}, all, false},
		{"stripped library", code, []string{"-shared", "-fPIC", "-s"}, exported, false},
		{"stripped program", code + main, []string{"-s"}, nil, false},
		{"stripped program with GPU code", code + main + fatbin, []string{"-s"}, nil, true},
		{"merged strings", code + main, []string{"-Wl,-O2"}, all, false},
		{"nothing of CUDA", "int main(void) { return 0; }", nil, nil, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f, err := os.Open(compile(t, tt.code, "a.out", tt.args...))
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			s, err := FindSymbols(f)
			if err != nil {
				t.Fatal(err)
			}
			if got := names(s); !slices.Equal(got, tt.want) || s.GPUCode != tt.gpu {
				t.Errorf("functions %q, GPU code %v; want %q, %v", got, s.GPUCode, tt.want, tt.gpu)
			}
		})
	}
}

// All functions are found in tables that are larger than one piece, also across two pieces.
func TestFindSymbolsInLargeTables(t *testing.T) {
	var code strings.Builder
	const n = 9000 // more than 192 KiB of symbols, and of names
	for i := range n {
		code.WriteString("int cuSomewhatLonger")
		for x := i + n; x > 0; x /= 26 {
			code.WriteByte('A' + byte(x%26))
		}
		code.WriteString("(void) { return 1; }\n")
	}
	f, err := os.Open(compile(t, code.String(), "lib.so", "-shared", "-fPIC", "-O0"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	s, err := FindSymbols(f)
	if err != nil || len(s.Functions) != n {
		t.Errorf("%d functions, %v, want %d", len(s.Functions), err, n)
	}
}

func TestIdentify(t *testing.T) {
	cudart := compile(t, runtimeCode, "odd.bin", "-shared", "-fPIC")
	given, err := Identify(cudart)
	if err != nil || given.Lib != events.LibCudart {
		t.Fatalf("Identify = %+v, %v, want a libcudart", given, err)
	}
	h := startHelper(t, nil)
	h.do("map " + cudart)
	libs, err := FS{}.Libraries(h.pid, Names{Given: []Given{given}})
	if err != nil || len(libs) != 1 || libs[0].Path != cudart || !libs[0].Inside {
		t.Errorf("Libraries = %+v, %v, want %s", libs, err, cudart)
	}
	for name, want := range map[string]events.Library{
		"libcuda.so.1": events.LibCuda, "libnccl.so.2": events.LibNCCL, // by their names: they define nothing
	} {
		if given, err := Identify(compile(t, "", name, "-shared", "-fPIC")); err != nil || given.Lib != want {
			t.Errorf("%s: %+v, %v, want %v", name, given, err, want)
		}
	}
	if _, err := Identify(compile(t, "int custom;", "other.so", "-shared", "-fPIC")); !errors.Is(err, ErrNoLibrary) {
		t.Errorf("a file of nothing: %v, want %v", err, ErrNoLibrary)
	}
	for name, bad := range map[string]string{"nowhere": "/nowhere", "a directory": t.TempDir(), "a device": "/dev/null", "a text": "/etc/passwd"} {
		t.Run(name, func(t *testing.T) {
			if given, err := Identify(bad); err == nil || given != (Given{}) {
				t.Errorf("Identify = %+v, %v", given, err)
			}
		})
	}
}

// A runtime in a program or another library is found once the process has a driver, and no runtime
// of its own file.
func TestFinder(t *testing.T) {
	testkit.NeedRoot(t)
	driver := elfFile(t, filepath.Join(t.TempDir(), "libcuda.so.1"), 'D')
	cudart := elfFile(t, filepath.Join(t.TempDir(), "libcudart.so.12"), 'R')
	inside := compile(t, runtimeCode, "big.so", "-shared", "-fPIC")
	fat := `__attribute__((section(".nvFatBinSegment"), used)) static const char fat[8] = "gpu";`
	stripped := compile(t, fat, "job", "-shared", "-fPIC", "-s")
	for _, tt := range []struct {
		name   string
		maps   []string
		want   []string
		unseen string
	}{
		{"with a driver", []string{inside, driver}, []string{inside}, ""},
		{"without", []string{inside}, nil, ""},
		{"with a runtime", []string{inside, cudart, driver}, nil, ""},
		{"stripped", []string{stripped, driver}, nil, stripped},
		{"stripped, beside one that is not", []string{stripped, inside, driver}, []string{inside}, ""},
		{"the driver alone", []string{driver}, nil, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := startHelper(t, nil)
			for _, path := range tt.maps {
				h.do("map " + path)
			}
			f := &Finder{}
			for range 2 { // read, then cached
				in, err := f.Look(h.pid, Names{})
				if err != nil {
					t.Fatal(err)
				}
				var got []string
				for _, l := range in.Libraries {
					got = append(got, l.Path)
				}
				if !slices.Equal(got, tt.want) || in.Unseen != tt.unseen {
					t.Errorf("libraries %q, unseen %q; want %q, %q", got, in.Unseen, tt.want, tt.unseen)
				}
			}
		})
	}
}
