//go:build measure

package probes_test

import (
	"testing"

	"ingero/internal/probes"
	"ingero/internal/testkit"
)

// Of calls that are neither slow nor failed so many have a stack that their weights come to
// all calls. How many that is depends on what a stack costs.
func TestStackSample(t *testing.T) {
	tr, child, _ := stackCaller(t, probes.Options{Stacks: probes.StacksSlow})
	const many = 15_000 // whose records the ring has room for
	n, weight := sampledStacks(t, tr, child, "call", 1, many)
	testkit.Measured(t, "sampled", 100*float64(n)/many, "%", testkit.Lower)
	if n > many/4 || weight < many/2 || weight > many*2 {
		t.Errorf("%d stacks of %d calls stand for %d", n, many, weight)
	}
}
