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
	Time   int64 // Unix ns: since when; 0: since before the first call that was seen
	Handle uint64
	Name   string // as it is linked: mangled
	PID    uint32
	Why    NoName // there is no name
}

// NoName says why a [Function] has no name. It is 0 where there is one.
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
