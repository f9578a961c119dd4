package track

import (
	"ingero/internal/tick"
	"ingero/pkg/events"
)

// effect is what calls of an operation do to the state.
type effect struct {
	do      func(*process, *thread, *events.Call, *effect)
	kind    tick.MemoryKind
	state   tick.CommState
	depth   int  // of groups: +1, -1
	peer    bool // a copy from one device to another
	counted bool // a call without a record makes the ledger of memory inexact
}

// role is the role of what names the memory.
func (e *effect) role() events.Role {
	if e.kind == tick.MemoryPhysical {
		return events.RoleHandle
	}
	return events.RolePtr
}

// classes are the effects of operations that have none of their own.
var classes = map[events.Class]effect{
	events.ClassLaunch: {do: launch},
	events.ClassMalloc: {do: allocate, counted: true},
	events.ClassFree:   {do: release, counted: true},
	events.ClassMemcpy: {do: memcpy},
	events.ClassSync:   {do: wait},
}

// kinds are the kinds of memory that are not plain device memory, by who allocates it
// and who frees it.
var kinds = []struct {
	kind        tick.MemoryKind
	alloc, free []string
}{
	{tick.MemoryManaged, []string{"cudaMallocManaged", "cuMemAllocManaged"}, nil},
	{tick.MemoryPool, []string{"cudaMallocAsync", "cudaMallocFromPoolAsync", "cuMemAllocAsync", "cuMemAllocFromPoolAsync"}, nil},
	{tick.MemoryPinned, []string{"cudaMallocHost", "cudaHostAlloc", "cuMemAllocHost", "cuMemAllocHost.v1", "cuMemHostAlloc"}, nil},
	{tick.MemoryRegistered, []string{"cudaHostRegister", "cuMemHostRegister"}, []string{"cudaHostUnregister", "cuMemHostUnregister"}},
	{tick.MemoryPhysical, []string{"cuMemCreate"}, []string{"cuMemRelease"}},
	{tick.MemoryArray, []string{"cudaMallocArray", "cudaMalloc3DArray", "cudaMallocMipmappedArray", "cuArrayCreate", "cuArray3DCreate", "cuMipmappedArrayCreate"},
		[]string{"cudaFreeArray", "cudaFreeMipmappedArray", "cuArrayDestroy", "cuMipmappedArrayDestroy"}},
}

// named are the effects that do not follow from an operation's class.
var named = []struct {
	effect
	names []string
}{
	{effect{do: mapMemory, counted: true}, []string{"cuMemMap"}},
	{effect{do: unmapMemory, counted: true}, []string{"cuMemUnmap"}},
	{effect{do: memcpy, peer: true}, []string{"cudaMemcpyPeer", "cudaMemcpyPeerAsync", "cuMemcpyPeer", "cuMemcpyPeerAsync"}},

	{effect{do: choose}, []string{"cudaSetDevice", "cudaGetDevice", "cuCtxGetDevice"}},
	{effect{do: learn}, []string{"cuDevicePrimaryCtxRetain"}},
	{effect{do: create}, []string{"cuCtxCreate"}},
	{effect{do: enter}, []string{"cuCtxSetCurrent"}},
	{effect{do: push}, []string{"cuCtxPushCurrent"}},
	{effect{do: pop}, []string{"cuCtxPopCurrent"}},
	{effect{do: leave}, []string{"cuCtxDestroy"}},
	{effect{do: restart}, []string{"cudaDeviceReset", "cuDevicePrimaryCtxReset"}},

	{effect{do: makeStream}, []string{"cudaStreamCreate", "cudaStreamCreateWithFlags", "cudaStreamCreateWithPriority", "cuStreamCreate", "cuStreamCreateWithPriority"}},
	{effect{do: dropStream}, []string{"cudaStreamDestroy", "cuStreamDestroy"}},
	{effect{do: wait}, []string{"cudaStreamQuery", "cudaEventQuery", "cuStreamQuery", "cuEventQuery"}},
	{effect{do: record}, []string{"cudaEventRecord", "cudaEventRecordWithFlags", "cuEventRecord", "cuEventRecordWithFlags"}},
	{effect{do: dropEvent}, []string{"cudaEventDestroy", "cuEventDestroy"}},

	{effect{do: beginCapture}, []string{"cudaStreamBeginCapture", "cuStreamBeginCapture"}},
	{effect{do: endCapture}, []string{"cudaStreamEndCapture", "cuStreamEndCapture"}},
	{effect{do: instantiate}, []string{"cudaGraphInstantiate", "cudaGraphInstantiateWithFlags", "cudaGraphInstantiateWithParams",
		"cuGraphInstantiate", "cuGraphInstantiateWithFlags", "cuGraphInstantiateWithParams"}},
	{effect{do: update}, []string{"cudaGraphExecUpdate", "cuGraphExecUpdate"}},
	{effect{do: upload}, []string{"cudaGraphUpload", "cuGraphUpload"}},
	{effect{do: dropExec}, []string{"cudaGraphExecDestroy", "cuGraphExecDestroy"}},
	{effect{do: dropGraph}, []string{"cudaGraphDestroy", "cuGraphDestroy"}},

	{effect{do: initComm}, []string{"ncclCommInitRank", "ncclCommInitRankConfig", "ncclCommInitRankScalable"}},
	{effect{do: collective}, []string{"ncclAllReduce", "ncclReduceScatter", "ncclAllGather", "ncclBroadcast", "ncclBcast", "ncclReduce", "ncclSend", "ncclRecv"}},
	{effect{do: endComm, state: tick.CommFinalized}, []string{"ncclCommFinalize"}},
	{effect{do: endComm, state: tick.CommDestroyed}, []string{"ncclCommDestroy"}},
	{effect{do: endComm, state: tick.CommAborted}, []string{"ncclCommAbort"}},
	{effect{do: group, depth: 1}, []string{"ncclGroupStart"}},
	{effect{do: group, depth: -1}, []string{"ncclGroupEnd"}},
}

// effects are by Op, for this is asked of every call.
var effects = func() (out [int(events.SourceGPU+1) << 8]*effect) {
	for i := range events.Catalog {
		r := &events.Catalog[i]
		if e, ok := classes[r.Class]; ok {
			out[r.Op] = &e
		}
	}
	set := func(names []string, e effect) {
		for _, name := range names {
			for _, op := range rowsNamed(name) {
				out[op] = &e
			}
		}
	}
	for _, k := range kinds {
		set(k.alloc, effect{do: allocate, kind: k.kind, counted: true})
		set(k.free, effect{do: release, kind: k.kind, counted: true})
	}
	for _, n := range named {
		set(n.names, n.effect)
	}
	return out
}()

// rowsNamed returns the operations whose own name it is.
func rowsNamed(name string) (out []events.Op) {
	for i := range events.Catalog {
		if events.Catalog[i].Name == name {
			out = append(out, events.Catalog[i].Op)
		}
	}
	return out
}
