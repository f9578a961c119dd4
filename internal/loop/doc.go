// Package loop finds what a program repeats: its steps, as the people who wrote it count them
// ([tick.Loop]).
//
// A thread waits for the GPU at several places of its loop. Package ledger closes a turn at each.
// The loop is the smallest number of turns after which seven in ten turns equal the earlier ones.
// Two turns are equal if they end with the same call, have the same number of launches, and have the
// same calls by operation and size. Only calls that always have records count
// ([events.Row.Always]). If no loop is found so, because a loop's data differ each time, two turns
// are equal if they end with the same call and have about the same number of launches.
// Once found, a loop whose step ends at a unique place is followed by that place, so that it
// continues when launches increase or are not seen. A step ends with the longest turn that occurs
// once in it: usually there the program waits for all of its work. An odd turn (a checkpoint, a log
// line) is a part of its step.
//
// A program that names its ranges with NVTX defines its steps itself, which takes precedence. The
// steps are the ranges with one name that occurs at least four times. Of these names, it is the one
// that covers most of the time since its first range, and at least half of it. If a name covers less
// and then comes back, as training after an evaluation, its later ranges count if there are 16 or
// more. An epoch is not a step: it contains 16 or more ranges of another name that cover about as
// much time and wait for the GPU. Names that differ only in numbers are equal. The kernel's accounts at both
// ends of a range give its exact time, though no turn begins or ends there. Started ranges without
// a number, as without a profiler, are assumed to end in reverse order.
//
// A thread that never waits for the GPU has no steps. For each process, the thread that waits for
// the GPU most is reported, with its loop of the longest total time. The thread's other loops are
// reported beside it: while a program evaluates its model, the steps are those of the evaluation. After a
// minute without steps of the main loop, the loop that the program repeats then is marked as the current one.
//
// The package is pure: it reads no clock, does no I/O and starts no goroutine. The same turns give
// the same loops, however they are cut into batches. Memory is bounded: threads over a limit have
// no loop. Package session calls it, from one goroutine.
package loop
