// Package screen takes over the terminal for a program: it draws on the whole screen and reads
// single keys.
//
// It writes to a non-blocking file description of its own, and only lines that have changed, so
// that neither a slow terminal nor one that nobody reads blocks its caller. While the program is in
// the background it leaves the terminal alone. The terminal is restored however the program ends:
// if the program is killed, its guard restores the terminal. The guard is a small copy of the
// program. The commands that show
// a live table use this package.
package screen
