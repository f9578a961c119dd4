package python

import "errors"

// Facts are a process's facts that the kernel's walker needs: struct py_process of bpf/pyabi.h.
type Facts struct {
	Runtime     uint64 // address of _PyRuntime
	CodeType    uint64 // address of PyCode_Type
	GIL         uint64 // address of the futex on which threads wait for the GIL, 0: unknown
	ThreadBelow uint32 // distance of pthread_self() below the thread pointer
	Epoch       uint32 // number of this set of facts, new each time they are sent to the kernel
	Layout      Layout
}

// Process is the interpreter of a process.
type Process struct {
	Facts   Facts
	Version Version
	Path    string // path of the file with the interpreter, as the process sees it
	Source  Source // source of the offsets

	off offsets
}

// Source is the source of the offsets. All offsets are followed through the process before use.
type Source string

// The sources.
const (
	SourcePublished Source = "published" // _Py_DebugOffsets
	SourceTable     Source = "table"     // the table for its version
	SourceDWARF     Source = "dwarf"     // its debug information
	SourceProbe     Source = "probe"     // a copy of the interpreter, run in a jail: Prober
)

// Reasons why a process has no Python frames.
var (
	ErrNotPython    = errors.New("no CPython interpreter found")
	ErrNotReady     = errors.New("the interpreter runs no code yet")
	ErrVersion      = errors.New("unsupported version")
	ErrFreeThreaded = errors.New("free-threaded builds are not supported")
	ErrMismatch     = errors.New("unexpected interpreter structures")
	ErrThreads      = errors.New("threads cannot be identified")
)

// Reason returns a short name of a Find error, for counters: "" for nil.
func Reason(err error) string {
	if err == nil {
		return ""
	}
	for _, r := range []struct {
		err  error
		name string
	}{
		{ErrNotPython, "not-python"}, {ErrNotReady, "not-ready"}, {ErrVersion, "version"},
		{ErrFreeThreaded, "free-threaded"}, {ErrMismatch, "mismatch"}, {ErrThreads, "threads"},
	} {
		if errors.Is(err, r.err) {
			return r.name
		}
	}
	return "unreadable"
}

// Frame is a Python frame of a walker: struct py_frame of bpf/pyabi.h.
type Frame struct {
	Code  uint64 // address of the code object; FrameEntry and FrameBegins in its low bits
	Mark  uint32 // mark that distinguishes the code object from others at its address
	Instr int32  // bytes from the first instruction
}

// Flags in the low bits of Frame.Code.
const (
	FrameEntry  = 1 // the evaluation loop was entered with this frame
	FrameBegins = 2 // the frame has not begun to run, and Python does not show it
	frameBits   = 7
)

// MaxFrames is the maximum number of frames of a stack.
const MaxFrames = 128

// End is the reason why a walk ended: enum py_end of bpf/pyabi.h.
type End uint32

// The reasons.
const (
	EndOK        End = iota // reached the outermost frame
	EndCut                  // truncated: there are more frames
	EndNotPython            // process unknown
	EndNoThread             // the thread runs no Python
	EndThreads              // too many threads to find this one
	EndAmbiguous            // the thread is in two interpreters
	EndFault                // memory could not be read
	EndStrange              // a frame without a code object
	Ends
)

var endNames = [Ends]string{"ok", "cut", "not-python", "no-thread", "too-many-threads", "two-interpreters", "unreadable", "strange"}

func (e End) String() string {
	if e < Ends {
		return endNames[e]
	}
	return "unknown"
}
