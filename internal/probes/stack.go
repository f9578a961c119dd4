package probes

import (
	"errors"
	"fmt"
	"math/bits"
	"runtime"

	"github.com/cilium/ebpf"

	"ingero/internal/bpf"
	"ingero/internal/python"
	"ingero/internal/tick"
	"ingero/internal/unwind"
)

// StackPolicy selects the calls whose stacks are taken.
type StackPolicy uint32

// The policies.
const (
	StacksNone StackPolicy = iota
	StacksSlow             // of slow and failed calls, of the first call from a site, and of a sample of the others
	StacksAll
)

// roomsPerCPU is the number of stacks that can be assembled at a time on each CPU: a program that
// assembles one can be preempted by others that do, too.
const roomsPerCPU = 4

// stackSettings prepares the programs for a policy. The verifier removes the code of unused
// policies, since it sees that it is dead.
func stackSettings(spec *ebpf.CollectionSpec, p StackPolicy, each bool) map[string]any {
	cpus, err := ebpf.PossibleCPU()
	if err != nil {
		cpus = runtime.NumCPU()
	}
	rooms := uint32(1) << bits.Len(uint(max(cpus, 1)*roomsPerCPU-1))
	if each {
		spec.Maps[bpf.IngeroMapStacks].MaxEntries = 1
	}
	if p == StacksNone {
		rooms = 1
		spec.Maps[bpf.IngeroMapStacks].MaxEntries = 1
	}
	spec.Maps[bpf.IngeroMapRooms].MaxEntries = rooms
	return map[string]any{bpf.IngeroVarTakeStacks: uint32(p), bpf.IngeroVarStackRooms: rooms, bpf.IngeroVarEachStack: each}
}

// lostEnds returns counts of incomplete stacks by reason.
func (t *Tracer) lostEnds() ([]tick.Drop, error) {
	var native [16]uint64
	var pythons [8]uint64
	if err := errors.Join(t.objects.WalkEnds.Get(&native), t.objects.PyEnds.Get(&pythons)); err != nil {
		return nil, fmt.Errorf("read why stacks ended: %w", err)
	}
	var out []tick.Drop
	for e := unwind.NoSpace; e < unwind.NotTaken; e++ {
		out = append(out, tick.Drop{Reason: "stack-" + e.String(), Count: native[e]})
	}
	for e := python.EndThreads; e < python.Ends; e++ {
		out = append(out, tick.Drop{Reason: "python-" + e.String(), Count: pythons[e]})
	}
	return out, nil
}
