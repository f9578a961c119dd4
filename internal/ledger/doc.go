// Package ledger says where the time of traced threads went: per process since
// the session began ([tick.Breakdown]), and step by step ([Step]).
//
// A step is the time from one return of a call that waits for the GPU
// (events.ClassSync, outermost) to the next of the same thread. It is what a
// program repeats and what a person waits for, so it is the unit in which time
// can be lost. A thread that never synchronises but copies synchronously
// (cudaMemcpy) has steps from copy to copy; one that does neither has steps of
// a second, marked [Step.Period].
//
// Totals come from the kernel's accounts (tick.Thread) and are exact. Names -
// who had the CPU, what a thread blocked on - come from wait records, which are
// made from 20 us on; they never add up to more than the totals, and what they
// leave is without a name. A blocked wait is explained by what its waker did
// meanwhile, where the waker is accounted for; and where that waited for a third
// thread, by what this did, up to four hops (path.go).
//
// Not every wait costs something. While a thread synchronises it waits for the
// GPU anyway, so there only the last wait can matter: see [Loss].
//
// The package is pure: it reads no clock, does no input or output and starts
// nothing; the same input in the same order gives the same output, however it
// is cut into batches. All memory is bounded, whatever it is fed: threads and
// processes over a limit are in the totals only, and what has ended is forgotten.
// It does not judge: that is package causal. Package session calls it, from one
// goroutine.
package ledger
