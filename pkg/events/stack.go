package events

import (
	"cmp"
	"path"
	"strconv"
	"strings"
)

// FrameKind says what a frame of a [Stack] is of.
type FrameKind uint8

// The kinds.
const (
	FrameNative FrameKind = iota + 1
	FramePython
	FrameGPU // the function that a launch started on the GPU
	FrameGap // frames are missing here, and Func says why
)

// Frame is one function of a [Stack]. What is not known is empty or 0.
type Frame struct {
	IP     uint64 // native: address of the instruction, in the process; of a caller the one that it returns to
	Offset uint64 // native: of IP from the start of Func, or of Module where Func is not known
	Func   string // demangled; of Python its qualified name
	File   string // source file
	Module string // native: path of what is mapped there
	Line   int32  // the line that was executed, 0: not known
	Kind   FrameKind
	Inline bool // the compiler put it into the frame after it
}

// Stack is the functions that a thread was in, innermost first. A [Call] names it by
// its ID; it can come some time after the call, since names are looked up apart.
type Stack struct {
	Frames []Frame
	ID     uint32 // of one recording, not 0
	PID    uint32 // it may stand for several processes of one program: the first
	Cut    bool   // it was deeper than what is taken
}

// Site returns the frame that a person would call the place of the call: the innermost line
// of their own Python code, else the innermost of any but for wrappers, else the innermost native function
// outside of the library that was called. nil: none is known.
func (s *Stack) Site() *Frame {
	var native, python, wrapper *Frame
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
			if called == "" {
				called = f.Module
			}
			if native == nil && f.Module != called && f.Func != "" {
				native = f
			}
		}
	}
	return cmp.Or(python, wrapper, native)
}

// wrappers are functions of Python through which others are called: files by the ends of their
// paths, and their functions by the ends of their names; "" is each.
var wrappers = [...]struct{ file, name string }{
	{"/ctypes/__init__.py", ""}, {"/contextlib.py", ""}, {"/functools.py", ""},
	{"/torch/nn/modules/module.py", "_call_impl"}, // Module._wrapped_call_impl, too
	{"/torch/utils/_contextlib.py", ""}, {"/torch/_ops.py", "__call__"}, {"/torch/_dynamo/eval_frame.py", ""},
}

// wraps says whether a frame of Python only calls what is called through it.
func (f *Frame) wraps() bool {
	for i := range wrappers {
		if w := &wrappers[i]; strings.HasSuffix(f.File, w.file) && strings.HasSuffix(f.Func, w.name) {
			return true
		}
	}
	return false
}

// packaged says whether a Python file belongs to the interpreter or to what was installed
// beside it.
func packaged(file string) bool {
	for _, part := range [...]string{"/site-packages/", "/dist-packages/", "/lib/python3", "/lib64/python3"} {
		if strings.Contains(file, part) {
			return true
		}
	}
	return strings.HasPrefix(file, "<frozen ")
}

// Place returns where a frame is, in words: "train.py:142 in forward()", "sgemm+0x1d4 (libcublas.so.12)".
func (f *Frame) Place() string {
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
	if place != "" && !f.Inline {
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
