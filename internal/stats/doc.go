// Package stats has ingero's two distributions of durations: [Sketch], filled in user space from
// call records, and [Hist], filled by the kernel for every call, even if its record is dropped.
//
// Both are log-linear: an octave (a doubling) has buckets of equal width, so the relative error is
// bounded, merging loses nothing, and the same values give the same buckets on every machine. The
// package is pure: it reads no clock and starts nothing. Values are not safe for concurrent use.
package stats
