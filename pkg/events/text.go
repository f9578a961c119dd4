package events

// MaxText bounds the text of a [Text], in bytes.
const MaxText = 4095

// Text is a string that a call was given: the name of a kernel that is looked up, of
// which the call's record has the address only. It comes before the record of its
// call, which has the same TID, Op and, as Start, the same Time; a text or a record
// can be lost, each without the other.
type Text struct {
	Time int64 // Unix ns: the Start of the call
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
