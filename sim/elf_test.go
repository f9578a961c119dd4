package sim

import (
	"bytes"
	"debug/elf"
	"path/filepath"
	"testing"

	"ingero/pkg/events"
)

var libraries = []struct {
	file    string
	lib     events.Library
	version string // version of its symbols
}{
	{"libcuda.so.1", events.LibCuda, ""},
	{"libcudart.so.11.0", events.LibCudart, "libcudart.so.11.0"},
	{"libcudart.so.12", events.LibCudart, "libcudart.so.12"},
	{"libcudart.so.13", events.LibCudart, "libcudart.so.13"},
	{"libnccl.so.2", events.LibNCCL, ""},
	{"libnvToolsExt.so.1", events.LibNVTX, ""},
}

var arches = []string{"amd64", "arm64"}

// own are exports that the real libraries do not have.
var own = map[string]bool{"simSetCallHook": true, "simMemory": true, "simGate": true, "simLook": true, "simKernelTime": true}

// eachLibrary runs a test on each library of each architecture.
func eachLibrary(t *testing.T, test func(t *testing.T, arch string, i int, f *elf.File)) {
	for _, arch := range arches {
		for i, l := range libraries {
			t.Run(arch+"/"+l.file, func(t *testing.T) {
				f, err := elf.Open(filepath.Join("prebuilt", arch, l.file))
				if err != nil {
					t.Fatal(err)
				}
				defer f.Close()
				test(t, arch, i, f)
			})
		}
	}
}

func exports(t *testing.T, f *elf.File) []elf.Symbol {
	t.Helper()
	all, err := f.DynamicSymbols()
	if err != nil {
		t.Fatal(err)
	}
	var out []elf.Symbol
	for _, s := range all {
		if s.Section != elf.SHN_UNDEF && elf.ST_TYPE(s.Info) == elf.STT_FUNC {
			out = append(out, s)
		}
	}
	return out
}

// The libraries export every symbol of the catalog, so that each row is traced on sim.
func TestExportsCoverTheCatalog(t *testing.T) {
	eachLibrary(t, func(t *testing.T, _ string, i int, f *elf.File) {
		have := map[string]bool{}
		for _, s := range exports(t, f) {
			have[s.Name] = true
		}
		for j := range events.Catalog {
			r := &events.Catalog[j]
			if r.Lib != libraries[i].lib {
				continue
			}
			for _, name := range r.AllSymbols() {
				if !have[name] {
					t.Errorf("%s of row %s is not exported", name, r.Name)
				}
			}
		}
	})
}

// The files look like NVIDIA's: names, versions, no symbol table but unwind tables.
func TestShape(t *testing.T) {
	eachLibrary(t, func(t *testing.T, _ string, i int, f *elf.File) {
		l := libraries[i]
		if so, err := f.DynString(elf.DT_SONAME); err != nil || len(so) != 1 || so[0] != l.file {
			t.Errorf("SONAME = %v, %v", so, err)
		}
		if f.Section(".symtab") != nil {
			t.Error(".symtab is there, the real library has none")
		}
		for _, name := range []string{".eh_frame", ".note.gnu.build-id"} {
			if f.Section(name) == nil {
				t.Errorf("%s is missing", name)
			}
		}
		for _, s := range exports(t, f) {
			if s.Version != l.version {
				t.Errorf("%s has version %q, want %q", s.Name, s.Version, l.version)
			}
			if s.Size == 0 {
				t.Errorf("%s has no size", s.Name)
			}
			known := bytes.HasPrefix([]byte(s.Name), []byte("cu")) || bytes.HasPrefix([]byte(s.Name), []byte("__cuda")) ||
				bytes.HasPrefix([]byte(s.Name), []byte("nccl")) || bytes.HasPrefix([]byte(s.Name), []byte("nvtx"))
			if !known && !own[s.Name] {
				t.Errorf("%s is exported, a name that is not CUDA's", s.Name)
			}
		}
		undefined, err := f.ImportedSymbols()
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range undefined {
			if s.Version != "" {
				t.Errorf("%s is needed in version %s: it must take any", s.Name, s.Version)
			}
		}
	})
}

// code returns the machine code of a function.
func code(t *testing.T, f *elf.File, s elf.Symbol) []byte {
	t.Helper()
	sec := f.Sections[s.Section]
	b := make([]byte, s.Size)
	if _, err := sec.ReadAt(b, int64(s.Value-sec.Addr)); err != nil {
		t.Fatalf("%s: %v", s.Name, err)
	}
	return b
}

// isStub recognizes libcuda's kind: cmpl $imm,disp(%rip); je inside; jmp *disp(%rip).
func isStub(b []byte) bool {
	return len(b) == 30 && b[0] == 0x81 && b[1] == 0x3d && b[10] == 0x74 && int(b[11])+12 < 30 &&
		b[12] == 0xff && b[13] == 0x25
}

// isPush recognizes libcudart's kind: push of any register.
func isPush(b []byte) bool {
	if b[0] == 0x41 {
		b = b[1:]
	}
	return b[0] >= 0x50 && b[0] <= 0x57
}

// The first bytes of an export determine the cost of a probe. In NVIDIA's libraries for x86-64 all
// traced libcuda functions are stubs of 30 bytes that begin with a cmpl and continue with a je at
// +10, and all of libcudart begin with a push.
func TestFirstBytes(t *testing.T) {
	eachLibrary(t, func(t *testing.T, arch string, i int, f *elf.File) {
		kinds := map[string]int{}
		for _, s := range exports(t, f) {
			b := code(t, f, s)
			kind := "other"
			switch {
			case arch == "amd64" && isStub(b):
				kind = "stub"
			case arch == "amd64" && isPush(b):
				kind = "push"
			case arch == "arm64" && bytes.HasPrefix(b, []byte{0x3f, 0x23, 0x03, 0xd5}):
				kind = "paciasp"
			case arch == "arm64" && bytes.HasPrefix(b, []byte{0x5f, 0x24, 0x03, 0xd5}):
				kind = "bti c"
			case arch == "arm64" && b[3]&0x9f == 0x90: // adrp
				kind = "adrp"
			}
			kinds[kind]++
			if kind == "other" {
				t.Errorf("%s begins with % x", s.Name, b[:min(14, len(b))])
			}
		}
		var want []string
		switch {
		case arch == "amd64" && libraries[i].lib == events.LibCuda:
			want = []string{"stub"}
		case arch == "amd64":
			want = []string{"push"}
		case libraries[i].lib == events.LibCuda:
			want = []string{"adrp"}
		default:
			want = []string{"paciasp", "bti c"}
		}
		for _, k := range want {
			if kinds[k] == 0 {
				t.Errorf("no export begins with %s: %v", k, kinds)
			}
		}
		if len(kinds) != len(want) {
			t.Errorf("exports begin with %v, want %v only", kinds, want)
		}
	})
}

// calib keeps its symbols, and has no interpreter and no libraries.
func TestCalibIsStatic(t *testing.T) {
	for _, arch := range arches {
		t.Run(arch, func(t *testing.T) {
			f, err := elf.Open(filepath.Join("prebuilt", arch, "calib"))
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			for _, p := range f.Progs {
				if p.Type == elf.PT_INTERP || p.Type == elf.PT_DYNAMIC {
					t.Errorf("calib has a %v", p.Type)
				}
			}
			syms, err := f.Symbols()
			if err != nil {
				t.Fatal(err)
			}
			have := map[string][]byte{}
			for _, s := range syms {
				if elf.ST_TYPE(s.Info) == elf.STT_FUNC && s.Size > 0 {
					have[s.Name] = code(t, f, s)
				}
			}
			for _, name := range []string{"ingero_calib_push", "ingero_calib_stepped", "ingero_calib_stub"} {
				if have[name] == nil {
					t.Errorf("%s is missing", name)
				}
			}
			if arch == "amd64" && (!isPush(have["ingero_calib_push"]) || isPush(have["ingero_calib_stepped"])) {
				t.Errorf("first bytes: push % x, stepped % x", have["ingero_calib_push"], have["ingero_calib_stepped"])
			}
			if b := have["ingero_calib_stub"]; arch == "amd64" && (b[0] != 0x81 || b[1] != 0x3d || b[10] != 0x74) {
				t.Errorf("stub begins with % x", b)
			}
		})
	}
}
