//go:build measure

package probes_test

import (
	"testing"

	"ingero/internal/probes"
	"ingero/internal/testkit"
)

// Among calls that are neither slow nor failed, the weights of sampled stacks add up to all calls.
// The sampling rate depends on the cost of a stack.
func TestStackSample(t *testing.T) {
	tr, child, _, _ := stackCaller(t, probes.Options{Stacks: probes.StacksSlow})
	const many = 15_000 // whose records fit into the ring
	n, weight := sampledStacks(t, tr, child, "call", 1, many)
	testkit.Measured(t, "sampled", 100*float64(n)/many, "%", testkit.Lower)
	if n > many/4 || weight < many/2 || weight > many*2 {
		t.Errorf("%d stacks of %d calls stand for %d", n, many, weight)
	}
}
