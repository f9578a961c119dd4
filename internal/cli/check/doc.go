// Package check looks at the machine and says, line by line, what is there for
// tracing, what it costs to lack what is not, and what to type about it.
//
// It changes nothing and starts nothing. A line fails only when nothing can be
// traced without it. A machine without a GPU passes: the simulated one can be
// traced, and a driver may come later. Its caller is the check command.
package check
