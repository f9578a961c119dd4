package causal

// RuleNames returns the names of all rules, in their order.
func RuleNames() []string {
	out := make([]string, len(Rules))
	for i := range Rules {
		out[i] = Rules[i].Name
	}
	return out
}
