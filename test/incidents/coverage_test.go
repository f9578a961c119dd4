package incidents

import (
	"slices"
	"testing"

	"ingero/internal/causal"
)

// Each rule is the cause of a scenario.
func TestEachRuleHasAScenario(t *testing.T) {
	var all []string
	for _, f := range families {
		for _, r := range f.rows {
			for n := range uint64(8) { // some have one cause or another
				for _, w := range r.plan(newSeed(n, f.name+"/"+r.name)).want {
					all = append(all, w.rules...)
				}
			}
		}
	}
	for _, name := range causal.RuleNames() {
		// What waits in a GPU's device file needs one: causal's own scenarios have it.
		if !slices.Contains(all, name) && name != "driver-slow" {
			t.Errorf("no scenario is of %s", name)
		}
	}
}
