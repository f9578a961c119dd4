package proc

import (
	"testing"

	"ingero/pkg/events"
)

func TestNames(t *testing.T) {
	for path, want := range map[string]events.Library{
		"/usr/lib/x86_64-linux-gnu/libcudart.so.12.4.127":                        events.LibCudart,
		"/venv/lib/python3.12/site-packages/nvidia/cuda_runtime/libcudart.so.12": events.LibCudart,
		"/opt/torch/lib/libcudart-0ab5f9e1.so.12":                                events.LibCudart,
		"/opt/conda/lib/libcudart.so":                                            events.LibCudart,
		"/a b/libcudart.so.11.0 (deleted)":                                       events.LibCudart,
		"/memfd:libcudart.so.12 (deleted)":                                       events.LibCudart,
		"libcuda.so.1":                                                           events.LibCuda,
		"/usr/lib/libcuda.so.550.163.01":                                         events.LibCuda,
		"/usr/lib/libnccl.so.2.22.3":                                             events.LibNCCL,
		"/opt/torch/lib/libnvToolsExt-847d78f2.so.1":                             events.LibNVTX,
		"/usr/local/cuda/lib64/libnvToolsExt.so.1.0.0":                           events.LibNVTX,
		"/usr/lib/libnccl-net.so":                                                0,
		"/usr/lib/libnccl-net-aws.so.0":                                          0,
		"/usr/lib/libnccl-deadbee.so":                                            0, // a hash has eight digits or more
		"/usr/lib/libcudadebugger.so.1":                                          0,
		"/usr/lib/libcudart_static.a":                                            0,
		"/usr/lib/libcudart.so.":                                                 0,
		"/usr/lib/libcudart.sox":                                                 0,
		"/usr/lib/libcudart.so.12/x":                                             0,
		"/usr/lib/xlibcuda.so":                                                   0,
		"[vdso]":                                                                 0,
		"":                                                                       0,
	} {
		t.Run(path, func(t *testing.T) {
			got, ok := Names{}.Match(path, Key{1, 2})
			if got != want || ok != (want != 0) {
				t.Errorf("Match = %v, %v, want %v", got, ok, want)
			}
		})
	}
}

func TestNamesGiven(t *testing.T) {
	given := Key{Dev: 7, Inode: 9}
	n := Names{Given: []Given{{given, events.LibCudart}, {Key{Dev: 7, Inode: 10}, events.LibCudart}}}
	for _, tt := range []struct {
		name, path string
		key        Key
		want       events.Library
	}{
		{"that file", "/odd/name.bin", given, events.LibCudart},
		{"that file, moved", "/lib/libcudart.so.12", given, events.LibCudart},
		{"another libcudart", "/lib/libcudart.so.12", Key{Dev: 7, Inode: 8}, 0},
		{"a second one", "/lib/libcudart.so.13", Key{Dev: 7, Inode: 10}, events.LibCudart},
		{"named for another library", "/lib/libnccl.so.2", given, events.LibCudart},
		{"libcuda", "/lib/libcuda.so.1", Key{Dev: 7, Inode: 8}, events.LibCuda},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got, ok := n.Match(tt.path, tt.key); ok != (tt.want != 0) || got != tt.want {
				t.Errorf("Match = %v, %v, want %v", got, ok, tt.want)
			}
		})
	}
}

func TestMatchDoesNotAllocate(t *testing.T) {
	path := []byte("/usr/lib/python3/dist-packages/numpy/core/_multiarray_umath.so (deleted)")
	if n := testing.AllocsPerRun(100, func() { Names{}.match(path, Key{1, 2}) }); n != 0 {
		t.Errorf("%v allocations a name, want none", n)
	}
}
