package python

import (
	"path"
	"strings"

	"ingero/pkg/events"
)

// evalLoops are the functions that run Python code: _PyEval_EvalFrameDefault and the parts into
// which compilers split it, and its pieces in a build with tail calls (3.14).
var evalLoops = []string{"_PyEval_EvalFrameDefault", "_TAIL_CALL_"}

// evalLoop reports whether a native frame is an evaluation loop.
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

// inInterpreter reports whether a native frame is in the interpreter's file.
func inInterpreter(f *events.Frame) bool {
	base := path.Base(f.Module)
	return f.Kind == events.FrameNative && (strings.HasPrefix(base, "libpython") || strings.HasPrefix(base, "python"))
}

// Merge inserts Python frames into a native stack, both innermost first: the functions of each
// evaluation loop replace its native frame. From 3.11 on one loop can run several functions. If a
// stripped interpreter hides all loops, the Python frames go where the stack enters it. If it shows
// some, the last visible loop gets the rest. In a truncated native stack, the rest is at the end.
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
			out = append(out, native[i]) // a loop that runs nothing
		}
		py = py[n:]
	}
	return appendShown(out, py)
}

// group returns the number of frames in the innermost evaluation loop.
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
