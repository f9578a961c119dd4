package causal

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Each problem of the list has a rule, or says what detection would require; four have none.
func TestProblems(t *testing.T) {
	known := map[string]bool{}
	for i := range Problems {
		p := &Problems[i]
		known[p.Number] = true
		rules := p.Answer()
		without := slices.Contains([]string{"4", "11", "24", "25"}, p.Number)
		switch {
		case p.Name == "" || (p.How == "") == (p.Needs == ""):
			t.Errorf("%s: %+v", p.Number, p)
		case without != (p.Needs != ""):
			t.Errorf("%s: it needs %q", p.Number, p.Needs)
		case !without && len(rules) == 0:
			t.Errorf("%s has the rules %q", p.Number, rules)
		}
	}
	if len(Problems) != 26 || len(known) != 26 {
		t.Errorf("%d problems, %d of them differ", len(Problems), len(known))
	}
	for i := range Rules {
		for _, n := range Rules[i].Problems {
			if !known[n] {
				t.Errorf("%s answers %q, which there is not", Rules[i].Name, n)
			}
		}
	}
}

// Each rule has a scenario here, except those that a text cannot express.
func TestEachRuleHasAScenario(t *testing.T) {
	elsewhere := []string{"burst-of-programs", "input-wait", // TestBurstOfPrograms, TestMatch
		// TestPrefillStall, TestKVPreemption and so on
		"prefill-stall", "kv-preemption", "slow-client", "frontend-slow", "scheduler-cpu", "adapter-swap"}
	files, err := filepath.Glob(filepath.Join("testdata", "*.txt"))
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(text)
	}
	for _, name := range RuleNames() {
		if !slices.Contains(elsewhere, name) && !strings.Contains(all.String(), "expect "+name+" ") {
			t.Errorf("no scenario expects %s", name)
		}
	}
}
