// Package screen has the terminal for a program alone: it draws on all of it and reads
// single keys.
//
// It writes to a description of its own that does not block, and only the lines that have
// changed, so that neither a slow terminal nor one that nobody reads holds its caller up.
// While the program is not in the terminal's foreground it leaves the terminal alone. However
// the program ends, the terminal is put back: a small copy of the program, the guard, does it
// where the program itself cannot any more. It is called by the commands that show a live
// table.
package screen
