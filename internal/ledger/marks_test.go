package ledger

import (
	"testing"

	"ingero/pkg/events"
)

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
