// Package cli is the command line: one file a command, each a row of the table
// in [root]. A command builds parts from flags and settings and hands them to
// session, query or explain; it decides nothing about what was measured.
//
// Standard output is data, standard error is for people. Errors are one line
// that says what happened and one that says what to do; see [problem].
// Its caller is cmd/ingero.
package cli
