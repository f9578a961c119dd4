// Package check inspects the machine and reports, line by line, which prerequisites for tracing
// are present, what each missing one costs, and how to get it.
//
// It changes nothing and starts nothing. A line fails only if nothing can be traced without it.
// A machine without a GPU passes: the simulated GPU can be traced, and a driver may be
// installed later. The only caller is the check command.
package check
