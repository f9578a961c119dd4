package ledger

import (
	"strings"

	"ingero/pkg/events"
)

// Marks are events in a step that other steps of its kind need not have.
type Marks uint16

// The marks.
const (
	MarkCapture    Marks = 1 << iota // a graph was captured or instantiated
	MarkGraph                        // a graph was launched
	MarkLaunch                       // something else was launched
	MarkAlloc                        // memory was allocated
	MarkFree                         // memory was freed
	MarkNoMemory                     // a call failed for lack of memory
	MarkFailed                       // a call failed for another reason
	MarkModule                       // code was loaded
	MarkUpload                       // one call copied at least 64 MiB to the GPU
	MarkCollective                   // a collective was begun
	MarkInit                         // a device, context or communicator was set up
	MarkFirst                        // first step of the thread
	MarkToGPU                        // one call copied at least 1 MiB to the GPU
	MarkFromGPU                      // one call copied at least 1 MiB from it
)

const (
	uploadBytes = 64 << 20
	largeBytes  = 1 << 20
	// Results (cudaError_t and CUresult alike).
	noMemory = 2
	notReady = 600
)

// marksOf returns the marks that every call of a row makes.
func marksOf(r *events.Row) Marks {
	switch r.Class {
	case events.ClassLaunch:
		if r.Op.Source() == events.SourceGraph {
			return MarkGraph
		}
		return MarkLaunch
	case events.ClassGraph:
		if strings.Contains(r.Name, "Capture") || strings.Contains(r.Name, "GraphInstantiate") {
			return MarkCapture
		}
	case events.ClassMalloc:
		return MarkAlloc
	case events.ClassFree:
		return MarkFree
	case events.ClassModule:
		return MarkModule
	case events.ClassCollective:
		return MarkCollective
	case events.ClassDevice, events.ClassComm:
		return MarkInit
	}
	return 0
}

// marksBy returns the additional marks of this call.
func marksBy(c *events.Call, f opFacts) (m Marks) {
	if c.Flags&events.CallFailed != 0 && c.Result != notReady {
		m = MarkFailed
		if c.Result == noMemory {
			m = MarkNoMemory
		}
	}
	if c.Flags&events.CallGraphs != 0 {
		m |= MarkGraph
	}
	if f.copies {
		n, _ := c.Value(events.RoleBytes)
		switch kind, _ := c.Value(events.RoleKind); { // cudaMemcpyKind: 1 is to the device, 2 from it
		case n < largeBytes:
		case kind == 1 && n >= uploadBytes:
			m |= MarkUpload | MarkToGPU
		case kind == 1:
			m |= MarkToGPU
		case kind == 2:
			m |= MarkFromGPU
		}
	}
	return m
}
