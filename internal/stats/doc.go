// Package stats holds the two distributions that ingero keeps of durations:
// [Sketch], filled in user space from call records, and [Hist], which the
// kernel fills for every call whatever becomes of its record.
//
// Both are log-linear: an octave (a doubling) is cut into buckets of equal
// width, so the relative error is bounded, merging loses nothing, and the same
// values give the same buckets on every machine. The package is pure: it reads
// no clock and starts nothing. Values are not safe for concurrent use.
package stats
