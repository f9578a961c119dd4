// Package diff compares two recordings of a program: how much longer a step takes, in which part of
// the time ledger, in which calls, the culprits, and how certain that is.
//
// Processes are matched by program and rank, never by PID. A step is one call of an operation that
// both runs make once a step, so runs of different lengths and clocks are comparable. Results are
// tested statistically: successive seconds of a run are correlated, and two runs of one program are
// never equal; see stat.go. The package renders nothing; package explain does.
package diff
