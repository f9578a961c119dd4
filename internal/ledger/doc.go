// Package ledger accounts for the time of traced threads: per process since the session began
// ([tick.Breakdown]), and step by step ([Step]).
//
// A step is the time from one return of a call that waits for the GPU (events.ClassSync, outermost)
// to the next of the same thread. It is what a program repeats and what a person waits for, so it
// is the unit in which time can be lost. A thread that never synchronizes but copies synchronously
// (cudaMemcpy) has steps from copy to copy. A thread that does neither has steps of a second,
// marked [Step.Period].
//
// Totals come from the kernel's accounts (tick.Thread) and are exact. Names - the thread that had
// the CPU, the reason of a block - come from wait records, which exist from 20 us on. Named time
// never exceeds the totals, and the rest has no name. A blocked wait is explained by what its waker
// did meanwhile, if the waker has an account. If the waker itself waited for a third thread, that
// thread explains the wait, up to four hops (path.go).
//
// Not every wait costs something. While a thread synchronizes it waits for the GPU anyway, so there
// only the last wait can matter: see [Loss].
//
// The package is pure: it reads no clock, does no I/O and starts no goroutine. The same input in
// the same order gives the same output, however it is cut into batches. All memory is bounded for
// any input: threads and processes over a limit are in the totals only, and ended ones are dropped.
// The package does not judge: that is package causal. Package session calls it, from one goroutine.
package ledger
