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

// Kind says what a frame holds. Values are part of the format: add new ones at the end.
type Kind uint8

// The kinds. The first ones begin a section, which lasts until the next of these.
const (
	End   Kind = iota
	Head       // [Header], JSON
	Began      // the session began: time, Unix ns, 8 bytes little-endian
	Poll       // a poll: time
	Tick       // a tick: time
	Stop       // the session was told to end: time

	// What a section holds: bytes of the kernel.
	Record   // of the ring of calls
	Life     // of the ring of the lives of processes
	Count    // process, row, counts
	Thread   // thread id, time, its state
	HostSum  // key, sum
	HostLast // a sum that was deleted

	// What a section holds: answers as JSON.
	Waiting     // read and written positions of the ring of calls
	Drops       // of the kernel
	Pages       // page allocations
	HostReports // sources of the host that are missing
	Over        // all processes have ended
	Majors      // numbers of the GPU driver's devices
	Name        // of a thread
	Holder      // of Python's lock
	Traced      // processes, as the host's sums are made
	Files       // what the files of the host say
	Device      // name of a disk
	Cgroup      // of a process that was killed
	Tables      // processes, libraries, reports
	Faults      // of GPUs
	Functions   // names of GPU functions
	Stacks      // stacks with their frames
	Machine     // state of the machine and of the agent
	kinds
)

var names = [kinds]string{"end", "header", "began", "poll", "tick", "stop", "record", "life", "count", "thread",
	"host-sum", "host-last", "waiting", "drops", "pages", "host-reports", "over", "majors", "name", "holder", "traced",
	"files", "device", "cgroup", "tables", "faults", "functions", "stacks", "machine"}

// String returns the name of the kind.
func (k Kind) String() string {
	if k < kinds {
		return names[k]
	}
	return fmt.Sprintf("kind %d", uint8(k))
}

// Section tells whether a frame of the kind begins a section.
func (k Kind) Section() bool { return k >= Began && k <= Stop }

// Header is what a player needs before the first frame.
type Header struct {
	ABI    int            // number of the layout of bpf/abi.h
	Shapes map[string]int // bytes of each of its structures
	PID    uint32         // of that agent
	Clock  int64          // Unix time less CLOCK_MONOTONIC, ns
	Rows   []uint16       // operations of the traced rows, in their order
	Stacks string         // policy of stacks
	PIDs   []uint32       // processes that were asked for
}
