package python

import (
	"path"
	"strings"

	"ingero/pkg/events"
)

// evalLoops are the functions that run Python code: _PyEval_EvalFrameDefault, also in the
// parts that compilers make of it, and those that it consists of where it is built from
// tail calls (3.14).
var evalLoops = []string{"_PyEval_EvalFrameDefault", "_TAIL_CALL_"}

// evalLoop says whether a native frame is one of the evaluation loop.
func evalLoop(f *events.Frame) bool {
	if f.Kind != events.FrameNative || f.Inline {
		return false
	}
	for _, name := range evalLoops {
		if strings.HasPrefix(f.Func, name) {
			return true
		}
	}
	return false
}

// inInterpreter says whether a native frame is of the interpreter's file.
func inInterpreter(f *events.Frame) bool {
	base := path.Base(f.Module)
	return f.Kind == events.FrameNative && (strings.HasPrefix(base, "libpython") || strings.HasPrefix(base, "python"))
}

// Merge puts Python's frames into a native stack, both innermost first: what one
// evaluation loop runs stands in its place. From 3.11 on that can be several functions.
// Where the loops cannot be seen, since the interpreter is stripped, Python's frames stand
// where the stack enters it; where some can be seen, the rest stands in the last of these. Of
// a native stack that is not whole, the rest is at its end.
func Merge(native []events.Frame, py []PyFrame, whole bool) []events.Frame {
	if len(py) == 0 {
		return native
	}
	out := make([]events.Frame, 0, len(native)+len(py))
	loops, first := 0, len(native)
	for i := range native {
		if evalLoop(&native[i]) {
			loops++
		}
		if first == len(native) && inInterpreter(&native[i]) {
			first = i
		}
	}
	if loops == 0 {
		out = append(out, native[:first]...)
		out = appendShown(out, py)
		return append(out, native[first:]...)
	}
	for i := range native {
		if !evalLoop(&native[i]) || len(py) == 0 {
			out = append(out, native[i])
			continue
		}
		n := group(py)
		if loops--; loops == 0 && whole {
			n = len(py)
		}
		before := len(out)
		if out = appendShown(out, py[:n]); len(out) == before {
			out = append(out, native[i]) // it runs nothing
		}
		py = py[n:]
	}
	return appendShown(out, py)
}

// group returns how many of the frames are of the innermost evaluation loop.
func group(py []PyFrame) int {
	for i := range py {
		if py[i].Entry {
			return i + 1
		}
	}
	return len(py)
}

func appendShown(out []events.Frame, py []PyFrame) []events.Frame {
	for i := range py {
		if !py[i].Hidden {
			out = append(out, py[i].Frame)
		}
	}
	return out
}
