package python

import "errors"

// Facts are what the kernel's walker needs to know of a process: struct py_process of
// bpf/pyabi.h.
type Facts struct {
	Runtime     uint64 // address of _PyRuntime
	CodeType    uint64 // of PyCode_Type
	GIL         uint64 // of what threads block on that wait for the interpreter's lock, 0: not known
	ThreadBelow uint32 // what pthread_self() is less than the thread pointer
	Epoch       uint32 // given where they are told to the kernel: another one each time
	Layout      Layout
}

// Process is the interpreter of a process.
type Process struct {
	Facts   Facts
	Version Version
	Path    string // of the file that has the interpreter, as the process sees it
	Source  Source // of the offsets

	off offsets
}

// Source says where offsets come from. All are followed through the process before use.
type Source string

// The sources.
const (
	SourcePublished Source = "published" // _Py_DebugOffsets
	SourceTable     Source = "table"     // of its version
	SourceDWARF     Source = "dwarf"     // its debugging information
	SourceProbe     Source = "probe"     // a copy of it, asked in a jail: Prober
)

// Why there are no Python frames of a process.
var (
	ErrNotPython    = errors.New("no CPython is in it")
	ErrNotReady     = errors.New("its interpreter runs nothing yet")
	ErrVersion      = errors.New("a version that is not supported")
	ErrFreeThreaded = errors.New("a free-threaded build, which is not supported")
	ErrMismatch     = errors.New("its structures are not as expected")
	ErrThreads      = errors.New("its threads cannot be told apart")
)

// Reason returns a short name for why Find found nothing, for counters: "" for nil.
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

// Frame is a Python frame as the walkers give it: struct py_frame of bpf/pyabi.h.
type Frame struct {
	Code  uint64 // address of the code object; FrameEntry and FrameBegins in its low bits
	Mark  uint32 // tells the code object from others at its address
	Instr int32  // bytes from the first instruction
}

// In Frame.Code.
const (
	FrameEntry  = 1 // the evaluation loop was entered with it
	FrameBegins = 2 // it has not begun to run, and Python does not show it
	frameBits   = 7
)

// MaxFrames are taken of one stack.
const MaxFrames = maxFrames

// End says how far a walk came: enum py_end of bpf/pyabi.h.
type End uint32

// The ends.
const (
	EndOK        End = iota // to the outermost frame
	EndCut                  // there are more frames
	EndNotPython            // nothing is known of the process
	EndNoThread             // the thread runs no Python
	EndThreads              // too many threads to look for this one
	EndAmbiguous            // the thread is in two interpreters
	EndFault                // memory that could not be read
	EndStrange              // a frame that has no code object
	Ends
)

var endNames = [Ends]string{"ok", "cut", "not-python", "no-thread", "too-many-threads", "two-interpreters", "unreadable", "strange"}

func (e End) String() string {
	if e < Ends {
		return endNames[e]
	}
	return "unknown"
}
