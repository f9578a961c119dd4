package legacy

import "ingero/pkg/events"

// code is an operation as 0.9 numbered them: by source, then by its own code.
type code struct{ source, op int64 }

// Sources of 0.9.
const (
	sourceRuntime = 1
	sourceHost    = 3
	sourceDriver  = 4
	sourceGraph   = 8
)

// ops are the calls of 0.9 that are calls now.
var ops = map[code]events.Op{}

func init() {
	for c, name := range map[code]string{
		{sourceRuntime, 1}: "cudaMalloc", {sourceRuntime, 2}: "cudaFree", {sourceRuntime, 3}: "cudaLaunchKernel", {sourceRuntime, 4}: "cudaMemcpy",
		{sourceRuntime, 5}: "cudaStreamSynchronize", {sourceRuntime, 6}: "cudaDeviceSynchronize", {sourceRuntime, 7}: "cudaMemcpyAsync",
		{sourceRuntime, 8}: "cudaMallocManaged",
		{sourceDriver, 1}:  "cuLaunchKernel", {sourceDriver, 2}: "cuMemcpy", {sourceDriver, 3}: "cuMemcpyAsync", {sourceDriver, 4}: "cuCtxSynchronize",
		{sourceDriver, 5}: "cuMemAlloc", {sourceDriver, 6}: "cuMemAllocManaged",
		{sourceGraph, 4}: "cudaGraphLaunch",
	} {
		op, ok := events.OpByName(name)
		if !ok {
			panic("legacy: no operation " + name)
		}
		ops[c] = op
	}
}

// The lives of processes.
const (
	hostExec = 5
	hostExit = 6
)

// callOf makes a call of an event.
func callOf(e *event, op events.Op) events.Call {
	c := events.Call{Start: e.time, Duration: max(e.duration, 0), OnCPU: max(e.duration, 0), PID: e.pid, TID: e.tid, Result: e.result,
		Weight: 1, Stack: stackID(e.stack), Op: op, Flags: events.CallNoLedger | events.CallLedgerPartial}
	if e.result != 0 {
		c.Flags |= events.CallFailed
	}
	r := op.Row()
	if len(r.Keep) > 0 && r.Class != events.ClassOther && op.Source() != events.SourceGraph {
		c.Args[0] = uint64(e.arg0) // a size, a pointer, a function or a stream: the first that is kept now
	}
	if r.Tag == "kind" {
		c.Tag = uint32(e.arg1)
	}
	if len(r.Keep) > 1 || r.Tag != "" && r.Tag != "kind" {
		c.Flags |= events.CallArgsPartial
	}
	return c
}

// stackID makes a stack's hash, of 64 bits, one of 32: calls that shared a stack do.
func stackID(hash int64) uint32 {
	id := uint32(uint64(hash)>>32) ^ uint32(hash)
	if id == 0 && hash != 0 {
		return 1
	}
	return id
}
