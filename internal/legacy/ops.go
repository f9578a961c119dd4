package legacy

import "ingero/pkg/events"

// code is an operation of 0.9: its source, and its code in the source.
type code struct{ source, op int64 }

// Sources of 0.9.
const (
	sourceRuntime = 1
	sourceHost    = 3
	sourceDriver  = 4
	sourceGraph   = 8
)

// ops are the codes of 0.9 that are calls today.
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

// Process events.
const (
	hostExec = 5
	hostExit = 6
)

// callOf converts an event to a call.
func callOf(e *event, op events.Op) events.Call {
	c := events.Call{Start: e.time, Duration: max(e.duration, 0), OnCPU: max(e.duration, 0), PID: e.pid, TID: e.tid, Result: e.result,
		Weight: 1, Stack: stackID(e.stack), Op: op, Flags: events.CallNoLedger | events.CallLedgerPartial}
	if e.result != 0 {
		c.Flags |= events.CallFailed
	}
	r := op.Row()
	if len(r.Keep) > 0 && r.Class != events.ClassOther && op.Source() != events.SourceGraph {
		c.Args[0] = uint64(e.arg0) // a size, a pointer, a function or a stream: today's first argument
	}
	if r.Tag == "kind" {
		c.Tag = uint32(e.arg1)
	}
	if len(r.Keep) > 1 || r.Tag != "" && r.Tag != "kind" {
		c.Flags |= events.CallArgsPartial
	}
	return c
}

// stackID converts a 64-bit stack hash to a 32-bit id: calls with one stack share the id.
func stackID(hash int64) uint32 {
	id := uint32(uint64(hash)>>32) ^ uint32(hash)
	if id == 0 && hash != 0 {
		return 1
	}
	return id
}
