package events

import (
	"slices"
	"testing"
)

// A name selects the operations with this name, and an old short name selects the operation that it
// abbreviates.
func TestOpsNamed(t *testing.T) {
	for name, want := range map[string][]string{
		"cudaStreamSynchronize":      {"cudaStreamSynchronize"},
		"cudaStreamSync":             {"cudaStreamSynchronize"},
		"CUDASTREAMSYNC":             {"cudaStreamSynchronize"},
		"cudaStreamSynchronize_ptsz": {"cudaStreamSynchronize"},
		"cudaDeviceSync":             {"cudaDeviceSynchronize"},
		"cuCtxSync":                  {"cuCtxSynchronize"},
		"cuMemAlloc":                 {"cuMemAlloc", "cuMemAlloc.v1"},
		"cuMemAlloc_v2":              {"cuMemAlloc"},
		"cumemalloc.v1":              {"cuMemAlloc.v1"},
		"cuMemcpyHtoD":               {"cuMemcpyHtoD"},
		"cudaNothing":                nil,
		"":                           nil,
	} {
		var got []string
		for _, o := range OpsNamed(name) {
			got = append(got, o.String())
		}
		if !slices.Equal(got, want) {
			t.Errorf("%q stands for %v, want %v", name, got, want)
		}
	}
	for i := range Catalog {
		if r := &Catalog[i]; !slices.Contains(OpsNamed(r.Name), r.Op) {
			t.Errorf("%s does not stand for itself", r.Name)
		}
	}
	for short, name := range shortNames {
		if _, ok := OpByName(name); !ok {
			t.Errorf("%s is short for %s, which is no operation", short, name)
		}
	}
}
