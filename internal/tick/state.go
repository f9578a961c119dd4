package tick

import (
	"cmp"
	"slices"

	"ingero/pkg/events"
)

// State is what follows from the calls of one process, since it was first seen or
// runs the program that it runs now: what memory it holds, what its streams, graphs
// and communicators are at. Lists have the largest first and are bounded; the counts
// beside them are not.
type State struct {
	PID     uint32
	Memory  Memory
	Held    []Kind // most first
	Devices []Device
	Streams List[Stream]
	Graphs  List[Graph]
	Comms   List[Comm]
	Entered []Entry // the latest Collectives of Comms, since the tick before, in their order
	Copies  []Copy
	Errors  List[CallError]
	// Untracked counts what there was no room to keep: threads, streams, graphs and so
	// on. Allocations have a count of their own.
	Untracked uint64
}

// List is the first of many.
type List[T any] struct {
	First []T
	All   int // how many there are
}

// MemoryKind says what was allocated.
type MemoryKind uint8

// The kinds. From MemoryPinned on it is memory of the host.
const (
	MemoryDevice     MemoryKind = iota // cudaMalloc
	MemoryManaged                      // of both, moved as it is used
	MemoryPool                         // in the order of a stream, from a pool
	MemoryPhysical                     // cuMemCreate: freed with its handle and its last mapping
	MemoryArray                        // of a layout that only the driver knows
	MemoryPinned                       // host memory of the driver
	MemoryRegistered                   // host memory of the program that was pinned later
	MemoryKinds
)

var memoryKinds = [MemoryKinds]string{"device", "managed", "pool", "physical", "array", "pinned", "registered"}

// String returns the kind's lower-case name.
func (k MemoryKind) String() string { return nameOf(memoryKinds[:], int(k)) }

// Host says whether memory of the kind is the host's.
func (k MemoryKind) Host() bool { return k >= MemoryPinned }

// Inexact says why a ledger may be off. Zero: it is exact.
type Inexact uint8

// The reasons.
const (
	InexactLate       Inexact = 1 << iota // calls before the attach were not seen
	InexactLost                           // calls have no records: thinned, lost, or removed
	InexactUnmeasured                     // returns were not watched: what was given is not known
	InexactUnread                         // arguments could not be read
	InexactFull                           // there was no room for all allocations
	inexacts          = 5
)

var inexactNames = [inexacts]string{"attached-late", "records-lost", "entry-only", "arguments-unread", "table-full"}

// Reasons returns the names of the reasons.
func (x Inexact) Reasons() []string {
	var out []string
	for i, name := range inexactNames {
		if x&(1<<i) != 0 {
			out = append(out, name)
		}
	}
	return out
}

// InexactOf is the inverse of Reasons. A name that is not known says nothing.
func InexactOf(reasons []string) (x Inexact) {
	for i, name := range inexactNames {
		if slices.Contains(reasons, name) {
			x |= 1 << i
		}
	}
	return x
}

// Memory is the ledger of a process's allocations. Bytes are those asked for, and
// of pitched memory those of all lines with their padding.
type Memory struct {
	Inexact Inexact
	Used    bool // something was allocated or freed
	GPU     Held // all of the device's, managed memory too
	Host    Held // pinned and registered

	Allocs, Frees uint64
	// DoubleFrees were of what had been freed before and not given again.
	// UnknownFrees were of what is not known to have been allocated.
	DoubleFrees, UnknownFrees uint64
	// Released were freed by no call of their own: by a reset, or the end of a context.
	Released  uint64
	Untracked uint64 // allocations for which there was no room
	OOMs      uint64 // allocations that failed for want of memory
	LastOOM   OOM    // the last, where there was one
	Growth    Growth
}

// Device is a device as a process counts its own, which need not be as others do.
type Device struct {
	Device int16  // as in events.Call
	UUID   string // 32 hexadecimal digits in five groups, without GPU- or MIG- before them
}

// Held is memory that is allocated and not freed.
type Held struct {
	Count   uint64
	Bytes   uint64
	Peak    uint64 // bytes
	Unsized uint64 // of Count: of a size that is not known
}

// Kind is what is held of a kind, on a device.
type Kind struct {
	Kind   MemoryKind
	Device int16 // as in events.Call
	Held
}

// OOM is an allocation that failed for want of memory.
type OOM struct {
	Time   int64 // Unix ns; 0: none
	Op     events.Op
	Size   uint64 // bytes asked for; 0: not known
	Device int16
	Live   uint64 // bytes that the process held on the GPU then
	Peak   uint64 // the most it had held before
	// Fragmented says that as much as this had been held before: so it was not the
	// process's own use that was too much, but its pieces, or somebody else's use.
	Fragmented bool
	// Holes is the share of the span of its addresses that it did not hold, from 0 to 1;
	// below 0: not known.
	Holes float64
}

// Growth is how fast the memory that is held on the GPU grows: the median slope
// (Theil-Sen) of its lowest levels in equal stretches of time, in bytes a minute,
// with the bounds between which it lies with 99 % confidence. Over is 0 where
// there is too little to tell.
type Growth struct {
	PerMinute, Low, High float64
	Over                 int64 // ns
	Leak                 bool  // Low is above 0, it grew to the end, and by a notable part of what is held
}

// Stream is what is known of a stream.
type Stream struct {
	Number      uint64 // tells it from others that have, or had, its handle
	Handle      uint64 // 0 is the default stream
	Device      int16
	Launches    uint64
	Outstanding uint64 // launches that are not known to be done
	Copies      uint64
	Bytes       uint64 // of Copies
	Captures    uint64 // begun: more than one is capturing again
	Last        int64  // Unix ns: last use
}

// Graph is the life of an executable graph, from the capture it came of.
type Graph struct {
	Number           uint64 // tells it from others that have, or had, its handles
	Exec, Graph      uint64 // handles; 0: not known
	Device           int16
	Captured         int64 // Unix ns: when the capture began; 0: not seen
	CaptureNS        int64
	CaptureTID       uint32
	CaptureStream    uint64
	CaptureMode      uint32 // cudaStreamCaptureMode
	CaptureLaunches  uint64 // launches that the thread made meanwhile
	Cold             bool   // nothing had been launched in that stream before
	CaptureFailed    bool
	Instantiated     int64 // Unix ns; 0: not yet, or not seen
	InstantiateNS    int64
	InstantiateFails uint64
	Launches         uint64
	LastLaunch       int64 // Unix ns
	Updates          uint64
	UpdateFails      uint64
	Uploads          uint64
	Destroyed        int64 // Unix ns; 0: it was not
}

// CommState is what has become of a communicator.
type CommState uint8

// The states.
const (
	CommActive CommState = iota
	CommFinalized
	CommDestroyed
	CommAborted
)

var commStates = []string{"active", "finalized", "destroyed", "aborted"}

// String returns the state's lower-case name.
func (s CommState) String() string { return nameOf(commStates, int(s)) }

// Comm is an NCCL communicator as one process has it. Those of other processes with
// the same ID are its other ranks.
type Comm struct {
	Number uint64 // tells it from others that have, or had, its handle
	Handle uint64
	ID     uint64 // first 64 bits of the unique id; of a split one made from its parent's; 0: not known
	Rank   int32  // below 0: not known
	Ranks  uint32 // 0: not known
	Device int16
	State  CommState
	Began  int64 // Unix ns: its init; 0: not seen, and Seq counts from the attach
	InitNS int64
	Seq    uint64 // collectives and point-to-point operations so far
	Failed uint64 // of them
	Last   CommOp
	Ended  int64 // Unix ns: destroyed or aborted
	// Collectives are those of Seq that all ranks must enter, but for those that failed.
	// Inexact: there were more, which have no record.
	Collectives uint64
	Inexact     bool
}

// CommOp is an operation of a communicator.
type CommOp struct {
	Op       events.Op
	TID      uint32 // before the first: of the thread that made the communicator
	Time     int64  // Unix ns
	Elements uint64
	Type     uint8 // ncclDataType_t
	Bytes    uint64
}

// CopyDir is the direction of a copy.
type CopyDir uint8

// The directions. The first are cudaMemcpyKind.
const (
	CopyHostToHost CopyDir = iota
	CopyHostToDevice
	CopyDeviceToHost
	CopyDeviceToDevice
	CopyUnknown // cudaMemcpyDefault, of addresses that are not known
	CopyPeer
	CopyDirs
)

var copyDirs = [CopyDirs]string{"HtoH", "HtoD", "DtoH", "DtoD", "unknown", "peer"}

// String returns the direction as it is mostly written.
func (d CopyDir) String() string { return nameOf(copyDirs[:], int(d)) }

// HostKind says what the host's side of a copy is.
type HostKind uint8

// The kinds.
const (
	HostUnknown HostKind = iota
	HostPageable
	HostPinned
	HostNone // no side is the host's
	HostKinds
)

var hostKinds = [HostKinds]string{"unknown", "pageable", "pinned", ""}

// String returns the kind's lower-case name, "" for none.
func (k HostKind) String() string { return nameOf(hostKinds[:], int(k)) }

// Copy sums the copies of one direction and kind. Where some have no records of their
// own it is an estimate.
type Copy struct {
	Dir       CopyDir
	Host      HostKind
	Count     uint64
	Bytes     uint64
	NS        int64 // that the calls took; of asynchronous ones not the copies
	Estimated bool
}

// CallError counts calls of an operation that failed in one way.
type CallError struct {
	Op          events.Op
	Code        int32
	Count       uint64
	First, Last int64 // Unix ns
}

// Name returns the name of the error.
func (e *CallError) Name() string { return events.ErrorName(e.Op, e.Code) }

// ByBytes is the order of kinds of memory: most first.
func ByBytes(a, b Kind) int {
	return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Device, b.Device))
}

func nameOf(names []string, i int) string {
	if i < len(names) {
		return names[i]
	}
	return "unknown"
}
