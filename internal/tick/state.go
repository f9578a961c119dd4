package tick

import (
	"cmp"
	"slices"

	"ingero/pkg/events"
)

// State is derived from the calls of one process, since it was first seen or since its last exec:
// its memory, streams, graphs and communicators. Lists have the largest first and are bounded; the
// counts beside them are not.
type State struct {
	PID     uint32
	Memory  Memory
	Held    []Kind // largest first
	Devices []Device
	Streams List[Stream]
	Graphs  List[Graph]
	Comms   List[Comm]
	Entered []Entry // the latest Collectives of Comms since the previous tick, in order
	Copies  []Copy
	Errors  List[CallError]
	// Untracked counts threads, streams, graphs and other objects beyond the limits. Allocations
	// have their own count.
	Untracked uint64
}

// List has the first elements of a long list.
type List[T any] struct {
	First []T
	All   int // total number
}

// MemoryKind is the kind of an allocation.
type MemoryKind uint8

// The kinds. From MemoryPinned on it is host memory.
const (
	MemoryDevice     MemoryKind = iota // cudaMalloc
	MemoryManaged                      // device and host, migrated on use
	MemoryPool                         // stream-ordered, from a pool
	MemoryPhysical                     // cuMemCreate: freed with its handle and its last mapping
	MemoryArray                        // layout known only to the driver
	MemoryPinned                       // host memory of the driver
	MemoryRegistered                   // host memory of the program, pinned later
	MemoryKinds
)

var memoryKinds = [MemoryKinds]string{"device", "managed", "pool", "physical", "array", "pinned", "registered"}

// String returns the kind's lower-case name.
func (k MemoryKind) String() string { return nameOf(memoryKinds[:], int(k)) }

// Host reports whether the kind is host memory.
func (k MemoryKind) Host() bool { return k >= MemoryPinned }

// Inexact is why a memory ledger may be inexact. Zero: it is exact.
type Inexact uint8

// The reasons.
const (
	InexactAttachedLate Inexact = 1 << iota // calls before the attach were not seen
	InexactLost                             // calls have no records: thinned, lost, or removed
	InexactUnmeasured                       // returns were not watched: the results are unknown
	InexactUnread                           // arguments could not be read
	InexactFull                             // too many allocations for the table
	inexacts            = 5
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

// InexactOf is the inverse of Reasons. Unknown names are ignored.
func InexactOf(reasons []string) (x Inexact) {
	for i, name := range inexactNames {
		if slices.Contains(reasons, name) {
			x |= 1 << i
		}
	}
	return x
}

// Memory is the ledger of a process's allocations. Bytes are the requested sizes; for pitched
// memory, all rows with their padding.
type Memory struct {
	Inexact Inexact
	Used    bool // something was allocated or freed
	GPU     Held // all device memory, and managed memory
	Host    Held // pinned and registered

	Allocs, Frees uint64
	// DoubleFrees counts frees of memory freed before and not allocated again. UnknownFrees counts
	// frees without a known allocation.
	DoubleFrees, UnknownFrees uint64
	// Released counts allocations freed by a reset, or by the end of a context.
	Released  uint64
	Untracked uint64 // allocations beyond the limit of the table
	OOMs      uint64 // allocations that failed for lack of memory
	LastOOM   OOM    // the last one, if any
	Growth    Growth
}

// Device is a device by the process's own numbering, which may differ from others'.
type Device struct {
	Device int16  // as in events.Call
	UUID   string // 32 hexadecimal digits in five groups, without the prefix GPU- or MIG-
}

// Held is memory that is allocated and not freed.
type Held struct {
	Count   uint64
	Bytes   uint64
	Peak    uint64 // bytes
	Unsized uint64 // of Count: with an unknown size
}

// Kind is the held memory of a kind on a device.
type Kind struct {
	Kind   MemoryKind
	Device int16 // as in events.Call
	Held
}

// OOM is an allocation that failed for lack of memory.
type OOM struct {
	Time   int64 // Unix ns; 0: none
	Op     events.Op
	Size   uint64 // requested bytes; 0: unknown
	Device int16
	Live   uint64 // bytes that the process held on the GPU at that time
	Peak   uint64 // largest amount held before
	// Fragmented means that the process had held as much before. So fragmentation, or the memory
	// use of other processes, is the cause, not its own use.
	Fragmented bool
	// Holes is the unheld share of its address span, from 0 to 1; below 0: unknown.
	Holes float64
}

// Growth is the growth rate of held GPU memory in bytes per minute: the median slope (Theil-Sen) of
// its lowest levels in equal time bins, with its 99 % confidence bounds. Over is 0 if there is too
// little data.
type Growth struct {
	PerMinute, Low, High float64
	Over                 int64 // ns
	Leak                 bool  // Low is above 0, and memory grew to the end by a notable share of what is held
}

// Stream is the state of a stream.
type Stream struct {
	Number      uint64 // unique, unlike handles, which are reused
	Handle      uint64 // 0 is the default stream
	Device      int16
	Launches    uint64
	Outstanding uint64 // launches not known to be complete
	Copies      uint64
	Bytes       uint64 // of Copies
	Captures    uint64 // begun captures: more than one means recapture
	Last        int64  // Unix ns: last use
}

// Graph is the life of an executable graph, from its capture on.
type Graph struct {
	Number           uint64 // unique, unlike handles, which are reused
	Exec, Graph      uint64 // handles; 0: unknown
	Device           int16
	Captured         int64 // Unix ns: start of the capture; 0: not seen
	CaptureNS        int64
	CaptureTID       uint32
	CaptureStream    uint64
	CaptureMode      uint32 // cudaStreamCaptureMode
	CaptureLaunches  uint64 // launches of the thread during the capture
	Cold             bool   // no launch in that stream before
	CaptureFailed    bool
	Instantiated     int64 // Unix ns; 0: not yet, or not seen
	InstantiateNS    int64
	InstantiateFails uint64
	Launches         uint64
	LastLaunch       int64 // Unix ns
	Updates          uint64
	UpdateFails      uint64
	Uploads          uint64
	Destroyed        int64 // Unix ns; 0: not destroyed
}

// CommState is the state of a communicator.
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

// Comm is an NCCL communicator in one process. Comms of other processes with the same ID are its
// other ranks.
type Comm struct {
	Number uint64 // unique, unlike handles, which are reused
	Handle uint64
	ID     uint64 // first 64 bits of the unique ID; after a split, derived from its parent's; 0: unknown
	Rank   int32  // below 0: unknown
	Ranks  uint32 // 0: unknown
	Device int16
	State  CommState
	Began  int64 // Unix ns: start of its init; 0: not seen, and Seq counts from the attach
	InitNS int64
	Seq    uint64 // collectives and point-to-point operations so far
	Failed uint64 // of them
	Last   CommOp
	Ended  int64 // Unix ns: destroyed or aborted
	// Collectives are those of Seq that all ranks must enter, without the failed ones. Inexact:
	// there were more, without a record.
	Collectives uint64
	Inexact     bool
}

// CommOp is an operation of a communicator.
type CommOp struct {
	Op       events.Op
	TID      uint32 // before the first operation: thread that created the communicator
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
	CopyUnknown // cudaMemcpyDefault with unknown addresses
	CopyPeer
	CopyDirs
)

var copyDirs = [CopyDirs]string{"HtoH", "HtoD", "DtoH", "DtoD", "unknown", "peer"}

// String returns the usual name of the direction.
func (d CopyDir) String() string { return nameOf(copyDirs[:], int(d)) }

// HostKind is the kind of host memory in a copy.
type HostKind uint8

// The kinds.
const (
	HostUnknown HostKind = iota
	HostPageable
	HostPinned
	HostNone // no host memory
	HostKinds
)

var hostKinds = [HostKinds]string{"unknown", "pageable", "pinned", ""}

// String returns the kind's lower-case name, "" for none.
func (k HostKind) String() string { return nameOf(hostKinds[:], int(k)) }

// Copy sums up the copies of one direction and kind. It is an estimate if some copies have no
// record.
type Copy struct {
	Dir       CopyDir
	Host      HostKind
	Count     uint64
	Bytes     uint64
	NS        int64 // duration of the calls; for asynchronous copies, not of the copies
	Estimated bool
}

// CallError counts the calls of an operation that failed with one code.
type CallError struct {
	Op          events.Op
	Code        int32
	Count       uint64
	First, Last int64 // Unix ns
}

// Name returns the name of the error.
func (e *CallError) Name() string { return events.ErrorName(e.Op, e.Code) }

// ByBytes compares kinds of memory by bytes, largest first.
func ByBytes(a, b Kind) int {
	return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Device, b.Device))
}

func nameOf(names []string, i int) string {
	if i < len(names) {
		return names[i]
	}
	return "unknown"
}
