package explain

import (
	"path"
	"strconv"

	"ingero/internal/symbols"
	"ingero/pkg/events"
)

// kindWords are the displayed kinds of frames.
var kindWords = map[events.FrameKind]string{
	events.FrameNative: "[Native] ", events.FramePython: "[Python] ", events.FrameGPU: "[GPU] ", events.FrameGap: "[...] ",
}

// cutText marks a truncated stack.
const cutText = "stack truncated"

// StackLines formats a stack with one line per frame, innermost first. kernel is the linker name of
// the function that the call launched on the GPU; "": none.
func StackLines(s *events.Stack, kernel string) []string {
	out := make([]string, 0, len(s.Frames)+2)
	line := func(f *events.Frame) { out = append(out, kindWords[f.Kind]+clean(f.Place())) }
	if kernel != "" {
		line(&events.Frame{Kind: events.FrameGPU, Func: symbols.Demangle(kernel)})
	}
	for i := range s.Frames {
		line(&s.Frames[i])
	}
	if s.Cut {
		line(&events.Frame{Kind: events.FrameGap, Func: cutText})
	}
	return out
}

// AppendFramesJSON appends the frames of a stack as a JSON list of [wire.StackFrame], innermost first.
func AppendFramesJSON(b []byte, s *events.Stack, kernel string) []byte {
	b = append(b, '[')
	first := true
	frame := func(f *events.Frame) {
		if !first {
			b = append(b, ',')
		}
		first = false
		b = appendFrameJSON(b, f)
	}
	if kernel != "" {
		frame(&events.Frame{Kind: events.FrameGPU, Func: symbols.Demangle(kernel)})
	}
	for i := range s.Frames {
		frame(&s.Frames[i])
	}
	if s.Cut {
		frame(&events.Frame{Kind: events.FrameGap, Func: cutText})
	}
	return append(b, ']')
}

func appendFrameJSON(b []byte, f *events.Frame) []byte {
	b = append(b, '{')
	sep := ""
	text := func(key, v string) {
		if v != "" {
			b = append(append(append(append(b, sep...), '"'), key...), `":`...)
			b, sep = appendString(b, v), ","
		}
	}
	number := func(key string, v int32) {
		if v > 0 {
			b = append(append(append(append(b, sep...), '"'), key...), `":`...)
			b, sep = strconv.AppendInt(b, int64(v), 10), ","
		}
	}
	switch f.Kind {
	case events.FramePython:
		text("py_file", f.File)
		text("py_func", f.Func)
		number("py_line", f.Line)
	case events.FrameGPU:
		text("gpu", f.Func)
	case events.FrameGap:
		text("gap", f.Func)
	default:
		text("ip", "0x"+strconv.FormatUint(f.IP, 16))
		symbol := f.Func
		if symbol != "" && !f.Inline {
			symbol += "+0x" + strconv.FormatUint(f.Offset, 16)
		}
		text("symbol", symbol)
		if f.Module != "" {
			text("file", path.Base(f.Module))
		}
		text("source", f.File)
		number("line", f.Line)
		if f.Inline {
			b = append(append(b, sep...), `"inline":true`...)
		}
	}
	return append(b, '}')
}
