//go:build measure

package causal

// Test all pairs of level and time for each scenario.
func init() { shedCases = len(blunt) * shedTimes }
