//go:build smoke

package incidents

import (
	"slices"
	"testing"

	"ingero/internal/causal"
)

// elsewhere maps rules without a scenario in the lab to the reason. Package causal tests them.
var elsewhere = map[string]string{
	"driver-slow": "what waits in a GPU's device file needs one",
	"cpu-stolen":  "no hypervisor takes a CPU when it is told to; test/ledger has the kernel's programs believe in one",
}

// Each rule is the expected cause in some scenario.
func TestEachRuleHasAScenario(t *testing.T) {
	var all []string
	for _, f := range families {
		for _, r := range f.rows {
			for n := range uint64(8) { // some scenarios choose among several causes
				for _, w := range r.plan(newSeed(n, f.name+"/"+r.name)).want {
					all = append(all, w.rules...)
				}
			}
		}
	}
	for _, name := range causal.RuleNames() {
		if !slices.Contains(all, name) && elsewhere[name] == "" {
			t.Errorf("no scenario is of %s", name)
		}
	}
}
