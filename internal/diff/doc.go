// Package diff says what changed between two recordings of a program: how much longer a
// step takes, in which part of the time ledger, in which calls, through whom, and how
// sure that is.
//
// Processes are matched by what they are, the program and the rank, never by number. A
// step is one call of an operation that both runs make once a step, so that runs of
// different lengths and clocks compare. What is said is tested: seconds of a run are
// alike their neighbours, and two runs of one program are never the same; see stat.go.
// The package renders nothing; package explain does.
package diff
