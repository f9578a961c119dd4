package tape

import (
	"errors"
	"fmt"
)

// Version is the version of the framing that this package writes and reads.
const Version = 1

const (
	magic    = "ingero raw tape "
	maxFrame = 1 << 20 // bytes of a payload
	maxTape  = 1 << 30 // bytes of all frames, uncompressed
)

// Errors of [Open] and [Reader.Next].
var (
	ErrNotTape   = errors.New("not a raw tape")
	ErrVersion   = errors.New("raw tape of another version")
	ErrTruncated = errors.New("raw tape is truncated")
	ErrCorrupt   = errors.New("raw tape is corrupt")
)

// Kind is the kind of a frame. Values are part of the format: add new ones at the end.
type Kind uint8

// The kinds. Those from Began to Stop begin a section, which lasts until the next one.
const (
	End   Kind = iota
	Head       // [Header], JSON
	Began      // the session began: time, Unix ns, 8 bytes little-endian
	Poll       // a poll: time
	Tick       // a tick: time
	Stop       // the session was asked to stop: time

	// Contents of a section: bytes of the kernel.
	Record   // from the ring of calls
	Life     // from the ring of process events
	Count    // process, row, counts
	Thread   // thread id, time, state
	HostSum  // key, sum
	HostLast // a sum that was deleted

	// Contents of a section: answers, JSON except Waiting.
	Waiting     // read and written positions of the ring of calls
	Drops       // of the kernel
	Pages       // page allocations
	HostReports // unavailable host sources
	Over        // all processes have ended
	Majors      // major numbers of the GPU driver's devices
	Name        // name of a thread
	Holder      // holder of Python's lock
	Traced      // traced processes, for the host sums
	Files       // contents of the host's files
	Device      // name of a disk
	Cgroup      // cgroup of a killed process
	Tables      // processes, libraries, reports
	Faults      // GPU faults
	Functions   // names of GPU functions
	Stacks      // stacks with their frames
	Machine     // state of the machine and the agent
	Labels      // changes of labels
	kinds
)

var names = [kinds]string{"end", "header", "began", "poll", "tick", "stop", "record", "life", "count", "thread",
	"host-sum", "host-last", "waiting", "drops", "pages", "host-reports", "over", "majors", "name", "holder", "traced",
	"files", "device", "cgroup", "tables", "faults", "functions", "stacks", "machine", "labels"}

// String returns the name of the kind.
func (k Kind) String() string {
	if k < kinds {
		return names[k]
	}
	return fmt.Sprintf("kind %d", uint8(k))
}

// Section reports whether a frame of the kind begins a section.
func (k Kind) Section() bool { return k >= Began && k <= Stop }

// Header is the data that a player needs before the first frame.
type Header struct {
	ABI    int            // number of the layout of bpf/abi.h
	Shapes map[string]int // bytes of each of its structures
	PID    uint32         // of the recording agent
	Clock  int64          // Unix time less CLOCK_MONOTONIC, ns
	Rows   []uint16       // operations of the traced rows, in order
	Stacks string         // stack policy
	PIDs   []uint32       // selected processes
}
