package ledger

import (
	"testing"

	"ingero/pkg/events"
)

// A call says whether a graph was launched before it, so that a step is marked without a record of the
// launch.
func TestMarksOfLaunchesWithoutARecord(t *testing.T) {
	sync, _ := events.OpByName("cudaStreamSynchronize")
	for name, tt := range map[string]struct {
		flags events.CallFlags
		marks Marks
		known bool
	}{
		"a graph":  {events.CallGraphs, MarkGraph, true},
		"no graph": {events.CallNoGraphs, 0, true},
		"unknown":  {0, 0, false},
	} {
		calls := []events.Call{
			{Start: base, Duration: 1e6, PID: 7, TID: 7, Weight: 1, Op: sync},
			{Start: base + 1e9, Duration: 1e6, PID: 7, TID: 7, Weight: 1, Op: sync, Launches: 3, Flags: tt.flags},
		}
		steps := New(0).Batch(nil, calls)
		if len(steps) == 0 {
			t.Fatalf("%s: no step", name)
		}
		if x := steps[len(steps)-1]; x.Marks&MarkGraph != tt.marks || x.GraphsKnown != tt.known {
			t.Errorf("%s: marks %b, known: %v, want %b, %v", name, x.Marks, x.GraphsKnown, tt.marks, tt.known)
		}
	}
}

// A copy of at least 1 MiB is marked by its direction.
func TestMarksOfCopies(t *testing.T) {
	const toGPU, fromGPU, onGPU = 1, 2, 3 // cudaMemcpyKind
	op, _ := events.OpByName("cudaMemcpyAsync")
	table := newOpTable()
	for _, tt := range []struct {
		name  string
		kind  uint32
		bytes uint64
		want  Marks
	}{
		{"small", toGPU, largeBytes - 1, 0},
		{"large", toGPU, largeBytes, MarkToGPU},
		{"very large", toGPU, uploadBytes, MarkToGPU | MarkUpload},
		{"small, from the GPU", fromGPU, largeBytes - 1, 0},
		{"very large, from the GPU", fromGPU, uploadBytes, MarkFromGPU},
		{"on the GPU", onGPU, uploadBytes, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := events.Call{Op: op, Tag: tt.kind}
			c.Args[0] = tt.bytes
			if n, ok := c.Value(events.RoleBytes); !ok || n != tt.bytes {
				t.Fatalf("%d bytes", n)
			}
			if got := marksBy(&c, table.facts(op)); got != tt.want {
				t.Errorf("got %b, want %b", got, tt.want)
			}
		})
	}
}
