// Package explain turns values into words: the report of a recording, the live
// table of a trace, and both as JSON; a call as a line; durations, counts and
// CUDA error codes as text.
//
// It is pure. It reads nothing, asks no clock and knows no terminal; the time
// zone, the size and whether colours are wanted are its caller's. It invents
// nothing either: what was not measured is unknown, in text "-", in JSON null or
// absent, never zero. Text and JSON are made from one model, so they agree.
//
// A nested call's time lies inside that of the call around it. Sums over
// operations therefore count each call's own time, which is its time less that
// of the traced calls that it made.
//
// Names that come from the traced machine (comm, paths) are shown without
// control characters. The callers are the commands and package query.
package explain
