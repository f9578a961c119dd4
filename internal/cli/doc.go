// Package cli implements the command line. Each command has its own file and a row in the
// table of [root]. A command builds parts from flags and settings and passes them to
// session, query or explain. It does not interpret measurements.
//
// Data goes to standard output, messages to standard error. An error has two lines: what
// happened and what to do; see [problem]. The only caller is cmd/ingero.
package cli
