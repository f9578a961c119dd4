package cli

import (
	"testing"

	"ingero/internal/tick"
)

// Stacks, which the database does not store, are no difference between chains.
func TestDiffChainsWithStacks(t *testing.T) {
	recorded := []tick.Chain{{ID: "a", Culprits: []tick.Culprit{{What: "work"}}}}
	replayed := []tick.Chain{{ID: "a", Stack: 7, Culprits: []tick.Culprit{{What: "work", Stack: 8}}}}
	if got, err := diffChains(recorded, replayed); err != nil || len(got) != 0 {
		t.Errorf("differences %v, %v; want none", got, err)
	}
}
