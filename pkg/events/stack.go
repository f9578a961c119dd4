package events

import (
	"cmp"
	"path"
	"strconv"
	"strings"
)

// FrameKind is the kind of a [Stack] frame.
type FrameKind uint8

// The kinds.
const (
	FrameNative FrameKind = iota + 1
	FramePython
	FrameGPU // a function started on the GPU by a launch
	FrameGap // frames are missing here, for the reason in Func
)

// Frame is one function of a [Stack]. Unknown fields are empty or 0.
type Frame struct {
	IP     uint64 // native: address of the instruction in the process; for a caller, its return address
	Offset uint64 // native: of IP from the start of Func, or of Module if Func is unknown
	Func   string // demangled; for Python, the qualified name
	File   string // source file
	Module string // native: path of the mapped file
	Line   int32  // the executed line, 0: unknown
	Kind   FrameKind
	Inline bool // inlined by the compiler into the next frame
}

// Stack has the functions that a thread was in, innermost first. A [Call] refers to it by its ID.
// It may arrive after the call, since names are looked up separately.
type Stack struct {
	Frames []Frame
	ID     uint32 // unique in one recording, not 0
	PID    uint32 // the first process, if several of one program share the stack
	Cut    bool   // deeper than the limit
	Own    bool   // of a thread between its calls: the first frame is where it was, not a called function
}

// Site returns the frame that a person would call the place of the call: the innermost line of
// their own Python code, else the innermost Python line except wrappers, else the innermost native
// function outside the called library and the C runtime. nil: unknown.
func (s *Stack) Site() *Frame {
	var native, python, wrapper, runtime *Frame
	called := ""
	for i := range s.Frames {
		f := &s.Frames[i]
		switch f.Kind {
		case FramePython:
			switch {
			case f.wraps():
				wrapper = cmp.Or(wrapper, f)
			case !packaged(f.File):
				return f
			default:
				python = cmp.Or(python, f)
			}
		case FrameNative:
			if called == "" && !s.Own {
				called = f.Module
			}
			switch {
			case f.Module == called || f.Func == "":
			case s.Own && ofPython(f.Module): // without its Python frames, it and its callers tell nothing
				return cmp.Or(native, runtime)
			case ofRuntime(f.Module):
				runtime = cmp.Or(runtime, f)
			default:
				native = cmp.Or(native, f)
			}
		}
	}
	return cmp.Or(python, wrapper, native, runtime)
}

// ofPython reports whether a file is a Python interpreter.
func ofPython(module string) bool {
	name := path.Base(module)
	return strings.HasPrefix(name, "libpython") || strings.HasPrefix(name, "python")
}

// ofRuntime reports whether a file belongs to the C or C++ runtime: a program's own code called it.
func ofRuntime(module string) bool {
	name, _, library := strings.Cut(path.Base(module), ".so")
	if !library {
		return strings.HasPrefix(module, "[") // code of the kernel: [vdso]
	}
	switch name {
	case "libc", "libm", "libpthread", "libstdc++", "libgcc_s", "libgomp", "ld-linux-x86-64", "ld-linux-aarch64":
		return true
	}
	return strings.HasPrefix(name, "libc-") || strings.HasPrefix(name, "libm-") || strings.HasPrefix(name, "libpthread-")
}

// wrappers are Python functions that call other functions: suffixes of their file paths, and of
// their names; "" matches every function.
var wrappers = [...]struct{ file, name string }{
	{"/ctypes/__init__.py", ""}, {"/contextlib.py", ""}, {"/functools.py", ""},
	{"/torch/nn/modules/module.py", "_call_impl"}, // Module._wrapped_call_impl, too
	{"/torch/utils/_contextlib.py", ""}, {"/torch/_ops.py", "__call__"}, {"/torch/_dynamo/eval_frame.py", ""},
}

// wraps reports whether a Python frame is a wrapper.
func (f *Frame) wraps() bool {
	for i := range wrappers {
		if w := &wrappers[i]; strings.HasSuffix(f.File, w.file) && strings.HasSuffix(f.Func, w.name) {
			return true
		}
	}
	return false
}

// packaged reports whether a Python file belongs to the interpreter or to an installed package.
func packaged(file string) bool {
	for _, part := range [...]string{"/site-packages/", "/dist-packages/", "/lib/python3", "/lib64/python3"} {
		if strings.Contains(file, part) {
			return true
		}
	}
	return strings.HasPrefix(file, "<frozen ")
}

// Place describes the site of a stack as [Frame.Place] does, "" if it is unknown. The offset in the
// function of an own stack is left out, since it is that of a sample.
func (s *Stack) Place() string {
	if f := s.Site(); f != nil {
		return f.place(!s.Own)
	}
	return ""
}

// Caller describes the native function that called the site of an own stack: the site may be a helper that sleeps. It is
// "" if the line of the call is unknown.
func (s *Stack) Caller() string {
	site := s.Site()
	if !s.Own || site == nil || site.Kind != FrameNative {
		return ""
	}
	inside := true // of the site, or of what it called
	for i := range s.Frames {
		f := &s.Frames[i]
		switch {
		case f == site:
			inside = false
		case !inside && f.Kind == FrameNative && f.Func != site.Func: // a function can call itself
			if f.Line > 0 {
				return f.place(false)
			}
			return ""
		}
	}
	return ""
}

// Place describes where a frame is: "train.py:142 in forward()", "sgemm+0x1d4 (libcublas.so.12)".
func (f *Frame) Place() string { return f.place(true) }

func (f *Frame) place(offset bool) string {
	file := f.File
	if f.Line > 0 {
		file += ":" + strconv.Itoa(int(f.Line))
	}
	switch {
	case f.Kind == FramePython && file == "":
		return f.Func + "()"
	case f.Kind == FramePython:
		return file + " in " + f.Func + "()"
	case f.Kind != FrameNative:
		return f.Func
	}
	place := f.Func
	if place != "" && !f.Inline && offset {
		place += "+0x" + strconv.FormatUint(f.Offset, 16)
	}
	switch {
	case f.Module != "":
		place = strings.TrimPrefix(place+" ("+path.Base(f.Module)+")", " ")
	case place == "":
		place = "0x" + strconv.FormatUint(f.IP, 16)
	}
	if file != "" {
		place += " at " + file
	}
	return place
}
