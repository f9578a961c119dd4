package python

import (
	"strings"
	"testing"

	"ingero/pkg/events"
)

// native makes a stack from words: "libpython:f" is a function of a file.
func native(words string) []events.Frame {
	var out []events.Frame
	for w := range strings.FieldsSeq(words) {
		module, name, _ := strings.Cut(w, ":")
		out = append(out, events.Frame{Kind: events.FrameNative, Module: "/usr/lib/" + module, Func: name})
	}
	return out
}

// frames makes Python frames from words: in "f!" the loop was entered with f, "-!" is a loop that
// runs nothing.
func pyFrames(words string) []PyFrame {
	var out []PyFrame
	for w := range strings.FieldsSeq(words) {
		name, entry := strings.CutSuffix(w, "!")
		out = append(out, PyFrame{Frame: events.Frame{Kind: events.FramePython, Func: name}, Entry: entry, Hidden: name == "-"})
	}
	return out
}

func TestMerge(t *testing.T) {
	const (
		lib  = "libcudart.so.12:cudaLaunchKernel _ctypes.so:call libpython3.12.so.1.0:_PyObject_MakeTpCall "
		eval = "libpython3.12.so.1.0:_PyEval_EvalFrameDefault "
		main = "libpython3.12.so.1.0:Py_RunMain python3.12:main"
	)
	for name, c := range map[string]struct{ native, py, want string }{
		"no Python":        {lib + eval + main, "", "cudaLaunchKernel call _PyObject_MakeTpCall _PyEval_EvalFrameDefault Py_RunMain main"},
		"one loop":         {lib + eval + main, "f g m!", "cudaLaunchKernel call _PyObject_MakeTpCall f g m Py_RunMain main"},
		"two loops":        {lib + eval + "libpython3.12.so.1.0:list_sort " + eval + main, "key! f m!", "cudaLaunchKernel call _PyObject_MakeTpCall key list_sort f m Py_RunMain main"},
		"a part of it":     {"libpython3.12.so.1.0:_PyEval_EvalFrameDefault.cold " + main, "f!", "f Py_RunMain main"},
		"tail calls":       {lib + "libpython3.14.so:_TAIL_CALL_CALL " + main, "f!", "cudaLaunchKernel call _PyObject_MakeTpCall f Py_RunMain main"},
		"an empty loop":    {lib + eval + "libpython3.12.so.1.0:subtype_dealloc " + eval + main, "-! f!", "cudaLaunchKernel call _PyObject_MakeTpCall _PyEval_EvalFrameDefault subtype_dealloc f Py_RunMain main"},
		"native cut":       {lib + eval, "f! g m!", "cudaLaunchKernel call _PyObject_MakeTpCall f g m"},
		"Python cut":       {lib + eval + eval + main, "f g", "cudaLaunchKernel call _PyObject_MakeTpCall f g _PyEval_EvalFrameDefault Py_RunMain main"},
		"stripped":         {"libcudart.so.12:cudaLaunchKernel _ctypes.so:call python3.14: python3.14:", "f g!", "cudaLaunchKernel call f g  "},
		"stripped in part": {lib + eval + "python3.14: " + main, "f! g m!", "cudaLaunchKernel call _PyObject_MakeTpCall f g m  Py_RunMain main"},
		"nothing native":   {"", "f g!", "f g"},
		"all of it fails":  {"libcudart.so.12:cudaLaunchKernel", "f g!", "cudaLaunchKernel f g"},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, f := range Merge(native(c.native), pyFrames(c.py), strings.HasSuffix(c.native, "main")) {
				got = append(got, f.Func)
			}
			if strings.Join(got, " ") != c.want {
				t.Errorf("got  %s\nwant %s", strings.Join(got, " "), c.want)
			}
		})
	}
}

// An inlined function is not an evaluation loop of its own.
func TestMergeInlined(t *testing.T) {
	n := native("libpython3.12.so.1.0:_PyEval_EvalFrameDefault libpython3.12.so.1.0:_PyEval_EvalFrameDefault")
	n[0].Inline = true
	if got := Merge(n, pyFrames("f!"), true); got[0].Kind != events.FrameNative || got[1].Func != "f" {
		t.Errorf("got %v", got)
	}
}
