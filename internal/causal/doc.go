// Package causal says what slowed a process down, and who did it. It turns the steps of
// package ledger into chains ([tick.Chain]). No excess, no chain: a busy machine that did not
// slow the job is not an incident.
//
// There is one way to find a cause. A [Rule] sees a [Window], the steps and facts of the last
// minute, and returns findings. All else is the engine's, in this order:
//
//  1. Take in steps and ticks: [Engine.Add] keeps a sample of each thread's steps (series.go),
//     [Engine.Tick] what ticks say of processes, the host and GPUs (books.go, host.go,
//     devices.go) and what was left out to spare the traced processes (sights.go).
//  2. Attribute each wait of a step, and each operation's own time in it, to the first rule
//     that claims it, and to a culprit (attribute.go). A culprit has a root: whether its thread
//     is of the job, and what it did (root.go). What a person can do follows from it.
//  3. Find the baseline of each part, and its excess over that (excess.go). What another
//     process, a quota or a signal took has baseline zero, so a job that was slow before ingero
//     came is explained too. Other parts have as baseline what a tenth of the steps of the same
//     kind have no more of, and an excess from twice that on. What threads, workers and ranks
//     usually wait for each other is normal, and so is what takes little (baseline.go); in a job's
//     first steps it is its start. In a step in which fast calls may
//     have no record, those of an operation took what the kernel's histogram says.
//  4. Net the excess against what made steps longer (net.go). CUDA is asynchronous: what the
//     host loses while the GPU has work queued makes the closing synchronize shorter and costs
//     nothing; a loop that sleeps to keep a pace sleeps less. Steps without excess give the
//     length of a normal step. Where there are too few, the third of the steps with the least
//     excess is compared with the third with the most. The share of an excess that reaches
//     the length, on the mean, is lost; nothing if that is less than a tenth.
//  5. Add up by cause what is lost (claimed.go): the findings of rules that claim parts. They
//     are judged at once. Small causes of a rule are told together, and many that have one
//     remedy as one (crowd.go).
//  6. Ask each rule for its findings (find.go). A rule may return what its claimed parts cost,
//     complete or drop that, take over what another rule found where the kernel's facts say
//     more (a page fault is swap, or a memory limit), or look at the window itself: at the
//     steps of any process, what kinds of steps cost (costs.go), calls that fail (failing.go).
//  7. Judge what they return (judge.go): is it enough, how grave is it, in which interval is
//     the loss, how certain is it.
//  8. Merge findings of one cause under two names, and leave out those that another finding
//     says better (merge.go).
//  9. Tell the rest as chains (tell.go, words.go), and keep them until five minutes after their
//     last slow step. As long as all that a chain rests on is in the window, it is judged anew.
//
// # A rule
//
// A rule is one file and one row in the table (rules.go). Its [Claims] say which parts of a
// step are its own, what their baseline is, and whom to blame. Its Find is a function of the
// window; the makers [claimed], [takesOver], [eachProcess], [costly], [failing], [noRoom],
// [reclaimed], [rollCalls] and [shifts] make the usual ones. A rule that needs several processes asks the
// window for the steps of each; they stay valid as long as the window.
//
// # An example in numbers
//
// A thread makes 200 steps. In every fourth, a neighbor has its CPU for 40 ms, in every eighth
// its quota holds it up for 20 ms more. It always waits 5 ms for a disk. The GPU has work queued
// meanwhile, so that only half of what the host loses makes a step longer:
//
//	steps   disk   neighbor   quota   length
//	  150   5 ms          -       -   100 ms
//	   25   5 ms      40 ms       -   120 ms
//	   25   5 ms      40 ms   20 ms   130 ms
//
// Attribution: the disk's time is disk-wait's, the neighbor's cpu-taken's, the quota's
// cpu-throttled's. Baseline: 5 ms for the disk, as in at least a tenth of the steps; zero for
// the others. Excess: 40 ms, and 60 ms of which 20 ms are the quota's.
//
// Netting: a normal step takes 100 ms, the middle of the 150 without excess. Of 25 x 40 ms +
// 25 x 60 ms of excess, 25 x 20 ms + 25 x 30 ms reached the length: one half. So the neighbor
// cost 20 ms in each of 50 steps, 1 s in all; the quota 10 ms in each of 25, 250 ms in all.
//
// Judging: the time looked at is 21.25 s. 1 s of it is 4.7 %: HIGH. 250 ms are 1.2 %: LOW. No
// loss is known better than to 15 %: 850 ms to 1.15 s, 212.5 ms to 287.5 ms. Confidence is the
// share of what the slow steps took longer: the neighbor's 50 took 1.25 s longer, of which 1 s
// is 0.8; the quota's 25 took 750 ms longer, of which 250 ms is 0.33. Counterfactual: the p99
// of the steps is 130 ms, and without the neighbor it would be 110 ms.
//
// # What is little of a minute
//
// A chain needs 1 % of the time looked at, 100 ms, and some slow steps (see [Rule]). From 1.5 %
// on it is MEDIUM, from 2 % HIGH: GPU time is dear, and losses of other origin (timers, kernel
// threads, the agent itself) stay well under 1 % of a step. What is little of a minute, but
// much of some seconds, is told as well.
//
// The package is pure: no clock, no input, no output, nothing started; the same steps give the
// same chains. Memory is bounded. Package session calls it, from one goroutine.
package causal
