// Package explain turns values into words: the report of a recording, the live table of a trace,
// and both as JSON; a call as a line; durations, counts and CUDA error codes as text.
//
// It is pure: no I/O, no clock, no terminal. The caller supplies the time zone, the size and the
// use of colors. It invents nothing: unmeasured values are unknown, "-" in text, null or absent in
// JSON, never zero. Text and JSON come from one model, so they agree.
//
// A nested call's time is inside that of the call around it. Sums over operations therefore use
// each call's own time, without the traced calls that it made.
//
// Names from the traced machine (comm, paths) are shown without control characters. The commands
// and package query call this package.
package explain
