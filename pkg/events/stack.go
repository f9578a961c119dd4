package events

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
