// Package loop finds what a program does again and again: its steps, as the people who
// wrote it count them ([tick.Loop]).
//
// A thread waits for the GPU at several places of its loop. Package ledger closes a
// turn at each; how turns follow each other tells the loop: the smallest number of turns
// after which seven in ten of them are like those before. Turns are alike if they end
// with the same call and have as many launches and the same calls by operation and size, of
// those that have records whatever tracing leaves out ([events.Row.Always]); where that finds
// nothing, for a loop whose data differ each time, if they end alike and have about as
// many launches. Once it is found, a loop whose step ends at a place of its own is followed
// by that, so that it goes on where launches become more or are not seen. A step ends with
// the turn that occurs once in it and is longest: mostly that is where the program waits for
// all of its work. A turn that is odd (a checkpoint, a line of log) is a part of the step that
// it is in.
//
// Where the program names its ranges by NVTX it says itself what its steps are, and that
// counts: the ranges of the name that comes again (four times) and covers most of the
// time since its first, at least half of it. An epoch is not a step: in it are 16 ranges
// of a name or more that cover about as much and wait for the GPU. Numbers in names make
// no difference. Where the time of a range went is told by the kernel's accounts at both its ends,
// exactly, though no turn begins or ends there. Started ranges without a number, as where
// no profiler is attached, are taken to end in the reverse order.
//
// A thread that never waits for the GPU has no steps. Of a process the thread that waits
// for it most is told.
//
// The package is pure: no clock, no input, no output, nothing started; the same turns
// give the same loops, however they are cut into batches. Memory is bounded: threads
// over a limit have no loop. Package session calls it, from one goroutine.
package loop
