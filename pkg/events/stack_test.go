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
	app := Frame{Kind: FrameNative, Func: "decode", Offset: 0x29, Module: "/app", File: "decode.c", Line: 15}
	for want, s := range map[string]*Stack{
		"decode (app) at decode.c:15":      {Own: true, Frames: []Frame{app}},
		"decode+0x29 (app) at decode.c:15": {Frames: []Frame{{Kind: FrameNative, Func: "cudaMalloc", Module: "/libcudart.so"}, app}},
		"":                                 {Own: true},
	} {
		if got := s.Place(); got != want {
			t.Errorf("%+v: %q, want %q", s, got, want)
		}
	}
}

// A place in a helper has its caller, if the line of the call is known.
func TestCaller(t *testing.T) {
	nap := Frame{Kind: FrameNative, Func: "clock_nanosleep", Module: "/lib/libc.so.6"}
	helper := Frame{Kind: FrameNative, Func: "sleep_us", Module: "/app", File: "t.h", Line: 64}
	app := Frame{Kind: FrameNative, Func: "acquire", Offset: 0x29, Module: "/app", File: "lock.c", Line: 8}
	stripped := Frame{Kind: FrameNative, Func: "run", Module: "/app"}
	line := Frame{Kind: FramePython, Func: "f", File: "a.py", Line: 3}
	for _, tt := range []struct {
		name   string
		frames []Frame
		own    bool
		want   string
	}{
		{"a helper", []Frame{nap, helper, app, stripped}, true, "acquire (app) at lock.c:8"},
		{"a helper that calls itself", []Frame{nap, helper, helper, app}, true, "acquire (app) at lock.c:8"},
		{"a caller without lines", []Frame{nap, helper, stripped, app}, true, ""},
		{"the outermost function", []Frame{nap, app}, true, ""},
		{"Python", []Frame{nap, line, app}, true, ""},
		{"a call", []Frame{nap, helper, app}, false, ""},
	} {
		if got := (&Stack{Own: tt.own, Frames: tt.frames}).Caller(); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
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
	memcpy := Frame{Kind: FrameNative, Func: "memcpy", Module: "/usr/lib/x86_64-linux-gnu/libc.so.6"}
	old := Frame{Kind: FrameNative, Func: "read", Module: "/lib/libpthread-2.31.so"}
	clock := Frame{Kind: FrameNative, Func: "clock_gettime", Module: "[vdso]"}
	decode := Frame{Kind: FrameNative, Func: "decode", Module: "/app"}
	eval := Frame{Kind: FrameNative, Func: "_PyEval_EvalFrameDefault", Module: "/usr/lib/libpython3.11.so.1.0"}
	for _, c := range []struct {
		name   string
		frames []Frame
		want   string
		itself bool // Stack.Own
	}{
		{name: "computes", frames: []Frame{decode, main}, want: "decode", itself: true},
		{name: "computes in the C library", frames: []Frame{memcpy, decode, main}, want: "decode", itself: true},
		{name: "reads", frames: []Frame{old, decode, main}, want: "decode", itself: true},
		{name: "reads a clock", frames: []Frame{clock, memcpy, decode}, want: "decode", itself: true},
		{name: "the C library alone", frames: []Frame{clock, memcpy}, want: "clock_gettime", itself: true},
		{name: "computes in Python", frames: []Frame{decode, own, main}, want: "forward", itself: true},
		{name: "computes in Python, with unknown frames", frames: []Frame{eval, eval, main}, itself: true},
		{name: "computes in a module of Python", frames: []Frame{memcpy, torch, eval, eval}, want: "at::empty", itself: true},
		{name: "computes in Python alone", frames: []Frame{memcpy, eval}, want: "memcpy", itself: true},
		{name: "called by the C library", frames: []Frame{cuda, memcpy, main}, want: "main"},
		{name: "own code", frames: []Frame{cuda, torch, package_, own, main}, want: "forward"},
		{name: "packages only", frames: []Frame{cuda, torch, package_, main}, want: "linear"},
		{name: "wrappers of packages", frames: []Frame{cuda, ctypes, call, package_, main}, want: "linear"},
		{name: "wrappers that are no package", frames: []Frame{cuda, built, own}, want: "forward"},
		{name: "wrappers only", frames: []Frame{cuda, torch, call, built, main}, want: "Module._wrapped_call_impl"},
		{name: "no Python", frames: []Frame{cuda, cuda, torch, main}, want: "at::empty"},
		{name: "no names", frames: []Frame{cuda, {Kind: FrameNative, Module: "/x"}, main}, want: "main"},
		{name: "the library alone", frames: []Frame{cuda, cuda}},
		{name: "nothing"},
	} {
		got := ""
		if f := (&Stack{Frames: c.frames, Own: c.itself}).Site(); f != nil {
			got = f.Func
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}
