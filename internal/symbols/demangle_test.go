package symbols

import (
	"strings"
	"testing"
	"unicode/utf8"
)

// Names from the libraries of PyTorch and CUTLASS.
const elementwise = "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_15CUDAFunctor_addIfEESt5arrayIPcLm3EEEEviT0_T1_"

func TestDemangle(t *testing.T) {
	for _, tt := range []struct{ name, full, short string }{
		{"_Z5scalePfi", "scale(float*, int)", "scale"},
		{elementwise, "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, std::array<char*, 3ul> >(int, at::native::CUDAFunctor_add<float>, std::array<char*, 3ul>)",
			"at::native::vectorized_elementwise_kernel<...>"},
		{"_ZN3gpu3addIfEEvPT_i", "void gpu::add<float>(float*, int)", "gpu::add<float>"},
		{"triton_poi_fused_0", "triton_poi_fused_0", "triton_poi_fused_0"},
		{"_Z", "_Z", "_Z"},
		{"_Zgarbage", "_Zgarbage", "_Zgarbage"},
		{"", "", ""},
	} {
		if got := Demangle(tt.name); got != tt.full {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.full)
		}
		if got := Short(tt.name, 60); got != tt.short {
			t.Errorf("%s: short %q, want %q", tt.name, got, tt.short)
		}
	}
	if got := Short(elementwise, 90); got != "at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<...>, std::array<...> >" &&
		len(got) > 90 {
		t.Errorf("%q", got)
	}
	if got := Short(strings.Repeat("ä", 3000), 41); len(got) > 41 || !utf8.ValidString(got) || !strings.HasSuffix(got, "...") {
		t.Errorf("cut: %q", got)
	}
}

func TestFunction(t *testing.T) {
	for name, want := range map[string]string{
		"main":                              "main",
		"_Z5scalePfi":                       "scale",
		"_ZNSt6vectorIiSaIiEE9push_backEOi": "std::vector<int, std::allocator<int> >::push_back",
		"_ZL6hiddeni.part.0":                "hidden",
		"_ZN12_GLOBAL__N_16hiddenEi.constprop.0.cold":      "(anonymous namespace)::hidden",
		"_ZN4core3fmt5Write9write_fmt17h0123456789abcdefE": "core::fmt::Write::write_fmt",
		"_RNvCs4fqI2P2rA04_3std4main":                      "std::main",
		"_ZN4llvm3fooEv.llvm.423301811461930140":           "llvm::foo",
		"add_alias2.part.0":                                "add_alias2",
		"copy.isra.0.constprop.12":                         "copy",
		"main.init.0":                                      "main.init.0",
		"main.(*T).cold":                                   "main.(*T).cold",
		"runtime.goexit.abi0":                              "runtime.goexit.abi0",
		".part.0":                                          ".part.0",
		"_Zgarbage":                                        "_Zgarbage",
		"":                                                 "",
	} {
		if got := Function(name, 200); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	if got := Function(elementwise, 60); got != "at::native::vectorized_elementwise_kernel<...>" {
		t.Errorf("%q", got)
	}
}

func TestElide(t *testing.T) {
	for _, tt := range []struct {
		in    string
		depth int
		want  string
	}{
		{"f<a<b<c>>, d>", 2, "f<a<...>, d>"},
		{"f<a<b<c>>, d>", 1, "f<...>"},
		{"operator<< <int>", 1, "operator<< <...>"},
		{"x::operator-><y<z>>", 2, "x::operator-><y<...>>"},
		{"f<(2>1), g<h>>", 2, "f<(2>1), g<...>>"},
		{"f<a", 1, "f<a"},
	} {
		if got := elide(tt.in, tt.depth); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.in, got, tt.want)
		}
	}
}

func TestKernelOf(t *testing.T) {
	for name, want := range map[string]string{
		"_Z5scalePfi":                                "_Z5scalePfi",
		"__device_stub__Z5scalePfi":                  "_Z5scalePfi",
		"__device_stub__plain":                       "plain",
		"_Z20__device_stub__scalePfi":                "_Z5scalePfi",
		"_ZN3gpu18__device_stub__addIfEEvPT_i":       "_ZN3gpu3addIfEEvPT_i",
		"_ZN4gpu418__device_stub__addIfEEvPT_i":      "_ZN4gpu43addIfEEvPT_i",
		"_Z99__device_stub__short":                   "_Z99__device_stub__short",
		"_Z99999999999999999999__device_stub__short": "_Z99999999999999999999__device_stub__short",
		"": "",
	} {
		if got := kernelOf(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

func FuzzShort(f *testing.F) {
	f.Add(elementwise, 20)
	f.Add("_ZN3gpu18__device_stub__addIfEEvPT_i", 5)
	f.Fuzz(func(t *testing.T, name string, most int) {
		if len(name) > MaxName {
			return
		}
		most = max(3, most&1023)
		if s := Short(name, most); len(s) > most {
			t.Errorf("%d bytes, want at most %d", len(s), most)
		}
		kernelOf(name)
		if s := Function(name, most); len(s) > most {
			t.Errorf("function: %d bytes, want at most %d", len(s), most)
		}
	})
}
