package track

import (
	"ingero/internal/tick"
	"ingero/pkg/events"
)

// verb is what a call does. A call inside another with the same verb is a part of it.
type verb uint8

const (
	other verb = iota
	allocates
	frees
	launches
	copies
	meets // with other ranks
)

// effect is what calls of an operation do to the state.
type effect struct {
	do      func(*process, *thread, *events.Call, *effect)
	verb    verb
	kind    tick.MemoryKind
	state   tick.CommState
	depth   int  // of groups: +1, -1
	peer    bool // a copy from one device to another
	loose   bool // an allocation without its size: the call inside has it
	counted bool // a call without a record makes the memory ledger inexact
	pair    bool // an operation of two ranks, or of one, that the others need not enter
}

// role returns the role of the value that identifies the memory.
func (e *effect) role() events.Role {
	if e.kind == tick.MemoryPhysical {
		return events.RoleHandle
	}
	return events.RolePtr
}

// classes are the effects of operations without their own.
var classes = map[events.Class]effect{
	events.ClassLaunch:     {do: launch, verb: launches},
	events.ClassMalloc:     {do: allocate, verb: allocates, counted: true},
	events.ClassFree:       {do: release, verb: frees, counted: true},
	events.ClassMemcpy:     {do: memcpy, verb: copies},
	events.ClassSync:       {do: wait},
	events.ClassQuery:      {do: wait},
	events.ClassCollective: {do: collective, verb: meets},
}

// kinds are the kinds of memory other than plain device memory, with their allocating and freeing
// functions, where the class is not enough.
var kinds = []struct {
	kind        tick.MemoryKind
	alloc, free []string
}{
	{tick.MemoryManaged, []string{"cudaMallocManaged", "cuMemAllocManaged"}, nil},
	{tick.MemoryPool, []string{"cudaMallocAsync", "cudaMallocFromPoolAsync", "cuMemAllocAsync", "cuMemAllocFromPoolAsync"}, nil},
	{tick.MemoryPinned, []string{"cudaMallocHost", "cudaHostAlloc", "cuMemAllocHost", "cuMemAllocHost.v1", "cuMemHostAlloc"}, nil},
	{tick.MemoryRegistered, []string{"cudaHostRegister", "cuMemHostRegister"}, []string{"cudaHostUnregister", "cuMemHostUnregister"}},
	{tick.MemoryPhysical, []string{"cuMemCreate"}, []string{"cuMemRelease"}},
	{tick.MemoryArray, []string{"cudaMallocArray", "cudaMalloc3DArray", "cudaMallocMipmappedArray", "cuArrayCreate", "cuArray3DCreate", "cuMipmappedArrayCreate"}, nil},
}

// named are the effects that differ from those of an operation's class.
var named = []struct {
	effect
	names []string
}{
	{effect{do: allocate, verb: allocates, loose: true, counted: true}, []string{"cudaMalloc3D"}},
	{effect{do: retain}, []string{"cuMemRetainAllocationHandle"}},
	{effect{do: mapMemory, counted: true}, []string{"cuMemMap"}},
	{effect{do: unmapMemory, counted: true}, []string{"cuMemUnmap"}},
	{effect{do: memcpy, verb: copies, peer: true}, []string{"cudaMemcpyPeer", "cudaMemcpyPeerAsync", "cuMemcpyPeer", "cuMemcpyPeerAsync"}},

	{effect{do: choose}, []string{"cudaSetDevice"}},
	{effect{do: identify}, []string{"cuDeviceGetUuid"}},
	{effect{do: learn}, []string{"cuDevicePrimaryCtxRetain"}},
	{effect{do: create}, []string{"cuCtxCreate", "cuCtxCreate_v3", "cuCtxCreate_v4"}},
	{effect{do: enter}, []string{"cuCtxSetCurrent"}},
	{effect{do: push}, []string{"cuCtxPushCurrent"}},
	{effect{do: pop}, []string{"cuCtxPopCurrent"}},
	{effect{do: leave}, []string{"cuCtxDestroy"}},
	{effect{do: restart}, []string{"cudaDeviceReset", "cudaThreadExit", "cuDevicePrimaryCtxReset"}},

	{effect{do: makeStream}, []string{"cudaStreamCreate", "cudaStreamCreateWithFlags", "cudaStreamCreateWithPriority", "cuStreamCreate", "cuStreamCreateWithPriority"}},
	{effect{do: dropStream}, []string{"cudaStreamDestroy", "cuStreamDestroy"}},
	{effect{do: record}, []string{"cudaEventRecord", "cudaEventRecordWithFlags", "cuEventRecord", "cuEventRecordWithFlags"}},
	{effect{do: dropEvent}, []string{"cudaEventDestroy", "cuEventDestroy"}},

	{effect{do: beginCapture}, []string{"cudaStreamBeginCapture", "cudaStreamBeginCaptureToGraph", "cuStreamBeginCapture", "cuStreamBeginCapture.v1", "cuStreamBeginCaptureToGraph"}},
	{effect{do: endCapture}, []string{"cudaStreamEndCapture", "cuStreamEndCapture"}},
	{effect{do: instantiate}, []string{"cudaGraphInstantiate", "cudaGraphInstantiate.v11", "cudaGraphInstantiateWithFlags", "cudaGraphInstantiateWithParams",
		"cuGraphInstantiate", "cuGraphInstantiateWithFlags", "cuGraphInstantiateWithParams"}},
	{effect{do: update}, []string{"cudaGraphExecUpdate", "cudaGraphExecUpdate.v11", "cuGraphExecUpdate", "cuGraphExecUpdate.v1"}},
	{effect{do: upload}, []string{"cudaGraphUpload", "cuGraphUpload"}},
	{effect{do: dropExec}, []string{"cudaGraphExecDestroy", "cuGraphExecDestroy"}},
	{effect{do: dropGraph}, []string{"cudaGraphDestroy", "cuGraphDestroy"}},

	{effect{do: initComm}, []string{"ncclCommInitRank", "ncclCommInitRankConfig", "ncclCommInitRankScalable", "ncclCommInitAll", "ncclCommShrink", "ncclCommGrow"}},
	{effect{do: splitComm}, []string{"ncclCommSplit"}},
	{effect{do: endComm, state: tick.CommFinalized}, []string{"ncclCommFinalize"}},
	{effect{do: endComm, state: tick.CommDestroyed}, []string{"ncclCommDestroy"}},
	{effect{do: endComm, state: tick.CommAborted}, []string{"ncclCommAbort"}},
	{effect{do: collective, verb: meets, pair: true}, []string{"ncclSend", "ncclRecv", "ncclPutSignal", "ncclSignal", "ncclWaitSignal"}},
	{effect{do: group, depth: 1}, []string{"ncclGroupStart"}},
	{effect{do: group, depth: -1}, []string{"ncclGroupEnd"}},
}

// effects is indexed by Op, because it is used for every call.
var effects [int(events.SourceNVTX+1) << 8]*effect

func init() {
	for i := range events.Catalog {
		r := &events.Catalog[i]
		if e, ok := classes[r.Class]; ok {
			effects[r.Op] = &e
		}
	}
	set := func(names []string, e effect) {
		for _, name := range names {
			for _, op := range rowsNamed(name) {
				effects[op] = &e
			}
		}
	}
	for _, k := range kinds {
		set(k.alloc, effect{do: allocate, verb: allocates, kind: k.kind, counted: true})
		set(k.free, effect{do: release, verb: frees, kind: k.kind, counted: true})
	}
	for _, n := range named {
		set(n.names, n.effect)
	}
}

// effectOf returns the effect of an operation, or nil.
func effectOf(o events.Op) *effect {
	if int(o) < len(effects) {
		return effects[o]
	}
	return nil
}

// inside reports whether a call is part of one with the same verb.
func inside(c *events.Call, is verb) bool {
	if c.Flags&events.CallNested == 0 {
		return false
	}
	e := effectOf(c.Parent)
	return e != nil && e.verb == is && !e.loose
}

// nested reports whether a call was made by another traced call in the catalog.
func nested(c *events.Call) bool { return c.Flags&events.CallNested != 0 && c.Parent != 0 }

// rowsNamed returns the operations with exactly this name.
func rowsNamed(name string) (out []events.Op) {
	for i := range events.Catalog {
		if events.Catalog[i].Name == name {
			out = append(out, events.Catalog[i].Op)
		}
	}
	return out
}

// Meets reports whether an operation is a collective: one that all ranks of its communicator must
// enter.
func Meets(o events.Op) bool {
	e := effectOf(o)
	return e != nil && e.verb == meets && !e.pair
}

// Pairs reports whether an operation is one of a communicator that not all of its ranks enter.
func Pairs(o events.Op) bool {
	e := effectOf(o)
	return e != nil && e.verb == meets && e.pair
}
