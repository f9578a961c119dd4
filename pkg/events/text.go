package events

// MaxText bounds the text of a [Text], in bytes.
const MaxText = 4095

// Text is a string argument of a call: the name of a kernel (GPU) that is looked up. The call's
// record has only its address. The text comes before the record of its call, which has the same TID
// and Op, and Time as its Start. Either can be lost without the other.
type Text struct {
	Time int64 // Unix ns: the Start of the call
	Text string
	PID  uint32
	TID  uint32
	Op   Op
	Cut  bool // longer than MaxText
}

// Function is the name of a GPU function (a kernel), identified by a handle of one process: a host
// function, a CUfunction, a CUkernel or a cudaKernel_t. Handles are reused: the latest Function
// before a launch applies.
type Function struct {
	Time   int64 // Unix ns: start of validity; 0: before the first call that was seen
	Handle uint64
	Name   string // linker name: mangled
	PID    uint32
	Why    NoName // reason of a missing name
}

// NoName is why a [Function] has no name. It is 0 if it has one.
type NoName uint8

// The reasons.
const (
	NoNameUnseen NoName = iota + 1 // its registration was not seen
	NoNameEnded
	NoNameUnread
	NoNameFull
	NoNameSeveral
	noNames
)

var noNameWords = [noNames]string{
	NoNameUnseen:  "it was registered before ingero attached, and has no symbol",
	NoNameEnded:   "the process ended before its name could be read",
	NoNameUnread:  "its name could not be read",
	NoNameFull:    "the table of functions is full",
	NoNameSeveral: "one call launches on several devices",
}

// String returns the reason in words, "" for 0.
func (n NoName) String() string {
	if n < noNames {
		return noNameWords[n]
	}
	return "unknown reason"
}
