// Package causal finds what slowed a process down, and the culprit. It turns the steps of package
// ledger into chains ([tick.Chain]). Without excess there is no chain: a busy machine that did not
// slow the job is not an incident.
//
// There is one way to find a cause. A [Rule] sees a [Window], the steps and facts of the last
// minute, and returns findings. The engine does everything else, in this order:
//
//  1. Take in steps and ticks. [Engine.Add] keeps a sample of each thread's steps (series.go).
//     [Engine.Tick] keeps the facts of processes, the host and GPUs (history.go, host.go,
//     devices.go) and what ingero shed to limit its overhead (shedding.go).
//  2. Attribute each wait of a step, and each operation's own time in it, to the first rule
//     that claims it, and to a culprit (attribute.go). A culprit has a root: whether its thread
//     belongs to the job, and what it did (root.go). The advice follows from the root.
//  3. Find the baseline of each part, and its excess over the baseline (excess.go). Time taken
//     by another process, a quota or a signal has baseline zero, so ingero also explains a job that
//     was slow before ingero started. For other parts, the baseline is the 10th percentile of the
//     steps of the same kind, and excess starts at twice the baseline. The usual waits of threads,
//     workers and ranks for each other are normal, and so are small waits (baseline.go), and the
//     waits of a job's first steps. In a step whose fast calls may have no record, an operation's
//     calls took what the kernel's histogram says.
//  4. Net the excess against the length of steps (net.go). CUDA is asynchronous: what the
//     host loses while the GPU has work queued makes the closing synchronize shorter and costs
//     nothing; a loop that sleeps to keep a pace sleeps less. Steps without excess give the
//     length of a normal step. Where there are too few, the third of the steps with the least
//     excess is compared with the third with the most. The mean share of an excess that reaches
//     the length is lost; a share below a tenth counts as zero.
//  5. Add up the lost time by cause (claimed.go), for rules that claim parts. These findings
//     are judged at once. Small causes of a rule are reported as one, and so are many
//     causes with one remedy (crowd.go).
//  6. Ask each rule for its findings (find.go). A rule may return what its claimed parts cost,
//     complete or drop that, take over another rule's finding where the kernel's facts explain
//     it better (a page fault is swap, or a memory limit), or inspect the window itself: the
//     steps of any process, what kinds of steps cost (costs.go), calls that fail (failing.go).
//  7. Judge each finding (judge.go): whether it cost enough, its severity, the interval of
//     its loss, and its confidence.
//  8. Merge findings of one cause under two names, and drop those that another finding
//     describes more exactly (merge.go).
//  9. Report the rest as chains (report.go, chain.go, text.go), and keep each until five minutes
//     after its last slow step. While all of a chain's steps are in the window, it is judged anew.
//     A chain whose loss another one explains from now on ends where that one begins (report.go).
//
// # A rule
//
// A rule is one file and one row in the table (rules.go). Its [Claims] select its parts of a step,
// their baseline, and the culprit. Its Find is a function of the window; the makers [claimed],
// [takeOver], [eachProcess], [costly], [failing], [noRoom], [reclaimed], [rollCalls] and [shifts]
// make the usual ones. A rule that needs several processes asks the window for the steps of each;
// they stay valid as long as the window.
//
// # An example in numbers
//
// A thread makes 200 steps. In every fourth, a neighbor has its CPU for 40 ms; in every eighth its
// quota throttles it for 20 ms more. It always waits 5 ms for a disk. The GPU has work queued
// meanwhile, so only half of what the host loses makes a step longer:
//
//	steps   disk   neighbor   quota   length
//	  150   5 ms          -       -   100 ms
//	   25   5 ms      40 ms       -   120 ms
//	   25   5 ms      40 ms   20 ms   130 ms
//
// Attribution: the disk's time goes to disk-wait, the neighbor's to cpu-taken, the quota's to
// cpu-throttled. Baseline: 5 ms for the disk, as in at least a tenth of the steps; zero for the
// others. Excess: 40 ms, and 60 ms, 20 ms of it from the quota.
//
// Netting: a normal step takes 100 ms, the median of the 150 without excess. Of 25 x 40 ms + 25 x
// 60 ms of excess, 25 x 20 ms + 25 x 30 ms reached the length: one half. So the neighbor cost 20 ms
// in each of 50 steps, 1 s in all; the quota 10 ms in each of 25, 250 ms in all.
//
// Judging: the observed time is 21.25 s. 1 s of it is 4.7 %: HIGH. 250 ms are 1.2 %: LOW. Each loss
// has an error of at least 15 %: 850 ms to 1.15 s, 212.5 ms to 287.5 ms. Confidence is the
// explained share of the slow steps' extra time: the neighbor's 50 took 1.25 s longer, and 1 s of
// that is 0.8; the quota's 25 took 750 ms longer, and 250 ms of that is 0.33. Counterfactual: the
// p99 of the steps is 130 ms, and without the neighbor it would be 110 ms.
//
// # Thresholds
//
// A chain needs 1 % of the observed time, 100 ms, and some slow steps (see [Rule]). From 1.5 % on
// it is MEDIUM, from 2 % HIGH: GPU time is expensive, and losses of other origin (timers, kernel
// threads, the agent itself) stay well under 1 % of a step. A loss that is small over the minute
// but large within a few seconds is reported, too.
//
// The package is pure: it reads no clock, does no I/O and starts no goroutine; the same steps give
// the same chains. Memory is bounded. Package session calls it, from one goroutine.
package causal
