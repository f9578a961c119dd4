package tapes

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"ingero/internal/causal"
)

// missing are rules that no tape has, and what guards them instead. Where that is a scenario,
// it is one of the texts in internal/causal/scenario_*_test.go.
var missing = map[string]string{
	"driver-slow": "a wait in a GPU's device file needs a GPU: scenario",
	"cpu-stolen":  "no hypervisor takes a CPU when it is told to: scenario",
}

// quiet are the families of the lab that have healthy jobs or decoys: faults that cost nothing.
var quiet = []string{"healthy", "cpu", "cuda", "graph", "disk", "memory", "threads", "net", "gpu", "nccl", "xid"}

// Each rule is the cause of a tape, and each family has a tape of which nothing is reported.
func TestTapesCoverRulesAndFamilies(t *testing.T) {
	rules, silent := map[string]bool{}, map[string]bool{}
	for _, path := range all(t) {
		tp, _ := load(t, path)
		for i := range tp.Want {
			for _, c := range tp.Heard[len(tp.Heard)-1].Chains {
				if slices.Contains(tp.Want[i].Rules, c.Rule) {
					rules[c.Rule] = true
				}
			}
		}
		if len(tp.Want) == 0 {
			family, _, _ := strings.Cut(tp.Name, "/")
			silent[family] = true
		}
		if want := FileName(tp.Name); filepath.Base(path) != want {
			t.Errorf("the tape of %q is called %s, want %s", tp.Name, filepath.Base(path), want)
		}
	}
	for _, name := range causal.RuleNames() {
		switch why := missing[name]; {
		case !rules[name] && why == "":
			t.Errorf("no tape is of %s", name)
		case rules[name] && why != "":
			t.Errorf("there is a tape of %s, which is listed as missing", name)
		}
	}
	for name := range missing {
		if !slices.Contains(causal.RuleNames(), name) {
			t.Errorf("%s is listed as missing and is no rule", name)
		}
	}
	for _, family := range quiet {
		if !silent[family] {
			t.Errorf("no tape of the family %s is of a healthy job or a decoy", family)
		}
	}
}
