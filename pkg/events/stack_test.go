package events

import "testing"

func TestPlace(t *testing.T) {
	for want, f := range map[string]Frame{
		"train.py:142 in Net.forward()":          {Kind: FramePython, Func: "Net.forward", File: "train.py", Line: 142},
		"train.py in f()":                        {Kind: FramePython, Func: "f", File: "train.py"},
		"f()":                                    {Kind: FramePython, Func: "f"},
		"gemm+0x1d4 (libcublas.so.12)":           {Kind: FrameNative, Func: "gemm", Offset: 0x1d4, Module: "/usr/lib/libcublas.so.12", IP: 9},
		"gemm (libx.so) at gemm.cc:7":            {Kind: FrameNative, Func: "gemm", Module: "/libx.so", File: "gemm.cc", Line: 7, Inline: true},
		"(libx.so)":                              {Kind: FrameNative, Module: "/a/libx.so", Offset: 7, IP: 9},
		"0x7f00":                                 {Kind: FrameNative, IP: 0x7f00},
		"f+0x0":                                  {Kind: FrameNative, Func: "f", IP: 0x7f00},
		"void kernel<int>(int)":                  {Kind: FrameGPU, Func: "void kernel<int>(int)"},
		"no frame pointers behind this function": {Kind: FrameGap, Func: "no frame pointers behind this function"},
	} {
		if got := f.Place(); got != want {
			t.Errorf("%+v: %q, want %q", f, got, want)
		}
	}
}

// The place of a call is in the user's own code rather than in libraries, and in Python rather than
// in the interpreter.
func TestSite(t *testing.T) {
	cuda := Frame{Kind: FrameNative, Func: "cudaMalloc", Module: "/libcudart.so"}
	torch := Frame{Kind: FrameNative, Func: "at::empty", Module: "/libtorch.so"}
	main := Frame{Kind: FrameNative, Func: "main", Module: "/app"}
	own := Frame{Kind: FramePython, Func: "forward", File: "/home/me/train.py", Line: 142}
	package_ := Frame{Kind: FramePython, Func: "linear", File: "/usr/lib/python3/dist-packages/torch/nn.py", Line: 3}
	call := Frame{Kind: FramePython, Func: "Module._wrapped_call_impl", File: "/usr/lib/python3/dist-packages/torch/nn/modules/module.py", Line: 1739}
	built := Frame{Kind: FramePython, Func: "Module._call_impl", File: "/src/pytorch/torch/nn/modules/module.py", Line: 1750}
	ctypes := Frame{Kind: FramePython, Func: "CDLL.__getattr__", File: "/usr/lib/python3.11/ctypes/__init__.py", Line: 389}
	for _, c := range []struct {
		name   string
		frames []Frame
		want   string
	}{
		{"own code", []Frame{cuda, torch, package_, own, main}, "forward"},
		{"packages only", []Frame{cuda, torch, package_, main}, "linear"},
		{"wrappers of packages", []Frame{cuda, ctypes, call, package_, main}, "linear"},
		{"wrappers that are no package", []Frame{cuda, built, own}, "forward"},
		{"wrappers only", []Frame{cuda, torch, call, built, main}, "Module._wrapped_call_impl"},
		{"no Python", []Frame{cuda, cuda, torch, main}, "at::empty"},
		{"no names", []Frame{cuda, {Kind: FrameNative, Module: "/x"}, main}, "main"},
		{"the library alone", []Frame{cuda, cuda}, ""},
		{"nothing", nil, ""},
	} {
		got := ""
		if f := (&Stack{Frames: c.frames}).Site(); f != nil {
			got = f.Func
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}
