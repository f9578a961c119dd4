// Package causal says what slowed a process down, and who did it: it turns the
// steps of package ledger into chains ([tick.Chain]). No excess, no chain: a busy
// machine that did not slow the job is not an incident.
//
// The method, by thread over a sliding minute:
//
//   - Each wait of a step, and each operation's own time in it, belongs to the
//     first of the [Rules] that matches it. What another process, a quota, a
//     signal or swap took has baseline zero, so a job that was slow before ingero
//     came is explained too. Other parts count from twice their low quantile (10
//     %) in the steps of the same kind on; what grew is the excess over it.
//
//   - CUDA is asynchronous: what the host loses while the GPU has work queued
//     makes the closing synchronise shorter and costs nothing; a loop that sleeps
//     to keep a pace sleeps less. So parts count only as far as they made steps
//     longer. Steps without any excess give the length of a normal step; where
//     there are too few, the third of the steps with the least excess is compared
//     with the third with the most. What of an excess reaches the length, on the
//     mean, is lost; nothing if that is less than a tenth.
//
//   - What is lost in a step is split over the parts that grew, and added up by
//     cause. A step counts as slow if a rule took at least 1 % of a normal step
//     from it, and 50 us.
//
//   - A chain needs 1 % of the time looked at, 100 ms, and some slow steps (see
//     [Rule]). From 1.5 % on it is MEDIUM, from 2 % HIGH: GPU time is dear, and
//     losses of other origin (timers, kernel threads, the agent itself) stay well
//     under 1 % of a step.
//
//   - What no part of a step tells, others do: a rule may claim whole steps by what
//     happened in them ([ledger.Marks]: a graph captured again, a call that failed
//     for want of memory), take over what another found, where the kernel's facts
//     say more (a page fault is swap, or a memory limit), or look at what the ticks
//     of the last minute said of a process, its GPU and its ranks ([Facts]).
//
//   - What is little of a minute, but much of some seconds, is told as well.
//
//   - What is lost is an interval: where the GPU was done is not always known, and
//     normal steps are not all alike.
//
//   - What a program does in some steps, and need not do (many small copies, a
//     capture), costs what these take longer than its others; where there are none,
//     the calls' own time, less what the GPU may have hidden.
//
// A thread's steps are kept for a minute, drawn at random where there are many.
// What was found is judged anew as long as all of it is in that minute; then a
// chain stays as it is until five minutes after its last slow step.
//
// The package is pure: no clock, no input, no output, nothing started; the same
// steps give the same chains. Memory is bounded. Package session calls it, from
// one goroutine.
package causal
