package events

// MaxText bounds the text of a [Text], in bytes.
const MaxText = 4095

// Text is a string that a call was given, as it was when the call began: the name of
// a kernel that is looked up, of which the call's record has the address only. It
// comes before the record of its call: the next one of the same thread and Op.
type Text struct {
	Time int64 // Unix ns
	Text string
	PID  uint32
	TID  uint32
	Op   Op
	Cut  bool // it was longer than MaxText
}

// Function is the name of a GPU function (a kernel), known by a handle of one
// process: a host function, a CUfunction, a CUkernel or a cudaKernel_t. A handle
// can come to mean another function: the latest before a launch counts.
type Function struct {
	Time   int64 // Unix ns: since when
	Handle uint64
	Name   string // as it is linked: mangled
	PID    uint32
}
