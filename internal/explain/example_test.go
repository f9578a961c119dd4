package explain

import (
	"testing"

	"ingero/internal/causal"
	"ingero/pkg/events"
)

// The examples of the reference use existing rules and operations.
func TestExamples(t *testing.T) {
	rules := map[string]bool{}
	for _, name := range causal.RuleNames() {
		rules[name] = true
	}
	for name := range exampleCulprits {
		if !rules[name] {
			t.Errorf("there is no rule %s", name)
		}
	}
	for rule, op := range exampleOps {
		if _, ok := events.OpByName(op); !rules[rule] || !ok && op != "" {
			t.Errorf("%s in %s", rule, op)
		}
	}
}
