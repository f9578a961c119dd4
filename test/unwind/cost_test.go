package unwind

import (
	"fmt"
	"testing"
)

// BenchmarkWalk measures an undisturbed walk in the kernel, by the depth of the stack.
func BenchmarkWalk(b *testing.B) {
	for _, depth := range []int{1, 10, 30, 60} {
		b.Run(fmt.Sprint(depth+4), func(b *testing.B) {
			w, child := run(b, options{quiet: true}, "loop", fmt.Sprintf("%d,%d", depth, b.N))
			child.Send("go")
			if err := child.Wait(); err != nil {
				b.Fatal(err)
			}
			var n, ns uint64
			if err := w.walked.Get(&n); err != nil || n != uint64(b.N) {
				b.Fatalf("%d walks of %d, %v", n, b.N, err)
			}
			if err := w.ns.Get(&ns); err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(0, "ns/op") // the whole call with its probe, not the walk
			b.ReportMetric(float64(ns), "ns/walk")
			b.ReportMetric(float64(ns)/float64(depth+4), "ns/frame")
		})
	}
}
