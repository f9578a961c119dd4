//go:build measure

package causal

// All pairs of a step and a time are tried of each scenario.
func init() { shedCases = 15 }
