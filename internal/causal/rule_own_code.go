package causal

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"ingero/internal/govern"
	"ingero/internal/ledger"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

const (
	usualCode = 0.25 // quantile of the steps of a kind: the usual time of the job's own code
	longCode  = 2    // a step is slow from this multiple of the usual time on,
	codeShare = 0.1  // if the time beyond the usual one is at least this share of its length
	// habitSleep is the share of steps with a sleep from which on a program sleeps as a habit: it keeps
	// a pace, or waits for requests.
	habitSleep = 0.5
	// Slow steps that recur all the time are how the program works. Of n gaps between them, which are
	// random, the largest exceeds habitGaps * log2(n) times the usual one once in n^(habitGaps-1) windows.
	habitGaps   = 3
	usualGap    = 0.4 // quantile of the gaps: the lower median of few
	fewestHabit = 3   // slow steps that show a habit
	// decisiveShare of the loss is in the slow steps that tell whether it is a habit: many that lose
	// little would hide gaps, or make some.
	decisiveShare = 0.9
	// reclaimCPU is how many times as much CPU time as waits a memory limit may cost: reclaim runs in any code
	// that touches memory.
	reclaimCPU = 5
	// fewestSlow slow steps, or fewer that lose longStall (ns), are no chance.
	fewestSlow = 3
	longStall  = int64(2e9)
)

// allTimes are the durations of all calls. Without them, calls would count as the job's own code.
const allTimes = govern.LaunchTimes | govern.EachLaunch | govern.QuickTimes | govern.EachQuick

// untimed has the levels without the durations of all calls, in all of a step or a part.
var untimed = taking(allTimes) | taking(allTimes)<<16

// otherWork marks steps that are not like the others of a loop.
const otherWork = ledger.MarkFirst | ledger.MarkInit | ledger.MarkModule | ledger.MarkCapture | ledger.MarkNoMemory | markAfter

// ownCode is as mild as ownThreads: a program may do other work at times. It is silent about what
// recurs all the time. Sleeps are at most MEDIUM: the job may have had nothing to do.
var ownCode = Rule{
	Name: "own-code", Sees: allTimes | govern.HostEvents, Needs: NeedCalls | NeedWaits, Share: ownShare, Slow: fewestSlow, Vague: 0.25, Problems: []string{"2", "12"},
	Doc:  "The job's own code took longer than usual on the thread that launches its GPU work: it computed, or slept, between two CUDA calls, while the GPU had nothing to do.",
	Find: eachProcess(windowSeconds*1e9, (*Window).slowCode),
}

// slowCode adds up how much longer the steps of a process's main thread took because of its own code. If it slept
// between tries to get a file lock, lock-wait gets the finding.
func (w *Window) slowCode(b *ProcessHistory) (x Finding, ok bool) {
	if w.runsEngine(b.PID) { // scheduler-cpu knows its steps
		return x, false
	}
	p := w.process(b.PID)
	slow, locks := w.slowAndRefused(p, b)
	if len(slow) == 0 || locks == nil && recurs(decisive(slow), slow, p.list) {
		return x, false
	}
	var computed, slept, usual, count float64
	less := make([]weighted, len(p.list))
	for i := range p.list {
		less[i] = weighted{p.list[i].length, p.list[i].weight}
	}
	worst := &slow[0]
	var computedAt, sleptAt longest // not every slow step has a stack
	for i := range slow {
		y := &slow[i]
		x.charge(y.step, y.lost, y.lost, y.lost)
		less[y.at].v -= y.lost
		computed, slept = computed+y.weight*float64(y.gap), slept+y.weight*float64(y.asleep)
		count, usual = count+y.weight, usual+y.weight*float64(y.usual)
		if y.lost > worst.lost {
			worst = y
		}
		computedAt.see(y.gap, y.codeAt)
		sleptAt.see(y.asleep, y.sleptAt)
	}
	x.PID, x.TID, x.Op, x.Window, x.Steps, x.Slow, x.P50, x.P99 = p.pid, p.tid, worst.op, p.span(), int(p.all+0.5), int(count+0.5), p.p50, p.p99
	x.Without = quantile(less, 0.99)
	if w.explained(&x) {
		return x, false
	}
	x.Baseline = fmt.Sprintf("a usual step has %s of it", span(int64(usual/count)))
	if locks != nil {
		w.polled(x, locks, worst, sleptAt.stack)
		return x, false
	}
	x.Severity = severity(float64(x.Lost)/mild, float64(x.Window))
	if slept > computed {
		x.Severity = min(x.Severity, tick.Medium)
	}
	if float64(x.Lost) < ownShare*float64(x.Window) || x.Slow < fewestSlow && x.Lost < longStall {
		return x, false
	}
	c := tick.Culprit{Thread: events.Thread{PID: p.pid, TID: p.tid, Name: events.NameOf(b.Comm)}, Own: true, What: whatCode(computed, slept, x.Slow), Lost: time.Duration(x.Lost)}
	if c.Stack = computedAt.stack; slept > computed {
		c.Stack = sleptAt.stack
	}
	x.Culprits = []tick.Culprit{c}
	x.Timeline = []tick.Moment{moment(worst.from, "CUDA", "slowest step: %s, of which %s in its own code", span(worst.length), span(worst.gap+worst.asleep))}
	return x, true
}

// longest has the stack of the longest of several times.
type longest struct {
	ns    int64
	stack uint32 // 0: none had a stack
}

func (l *longest) see(ns int64, stack uint32) {
	if stack != 0 && (l.stack == 0 || ns > l.ns) {
		l.ns, l.stack = ns, stack
	}
}

// whatCode says what the job's own code did in its slow steps.
func whatCode(computed, slept float64, steps int) string {
	var did []string
	if computed >= slept/10 {
		did = append(did, "computed for "+span(int64(computed)))
	}
	if slept > computed/10 {
		did = append(did, "slept for "+span(int64(slept)))
	}
	return fmt.Sprintf("%s between the CUDA calls of %d steps", strings.Join(did, " and "), steps)
}

// slowStep is a step with more of its own code than usual.
type slowStep struct {
	*step
	at     int   // index in the process's steps
	asleep int64 // as step.slept, 0 if the program sleeps as a habit
	usual  int64 // time of the job's own code in a usual step, ns
	lost   int64 // ns
}

// slowSteps returns the slow steps of all kinds. If polls is true, no sleep counts as a habit.
func (w *Window) slowSteps(p *process, polls bool) (out []slowStep) {
	b := w.History(p.pid)
	for i := 0; i < len(p.list); {
		j := i + 1
		for j < len(p.list) && p.list[j].kind == p.list[i].kind {
			j++
		}
		if alike := p.list[i:j]; !alike[0].period {
			for _, y := range w.slowAlike(alike, polls) {
				if starts := y.early && w.e.starting(p.pid, y.from) || b != nil && y.from < b.First; starts {
					continue
				}
				y.at += i
				out = append(out, y)
			}
		}
		i = j
	}
	return out
}

// vague reports whether calls in a step may not have been measured.
func (x *step) vague() bool { return x.shed&untimed != 0 }

// slowAlike returns the slow steps among those of one kind.
func (w *Window) slowAlike(steps []step, polls bool) (out []slowStep) {
	all, asleep := 0.0, 0.0
	for i := range steps {
		all += steps[i].weight
		if steps[i].slept >= leastSlow {
			asleep += steps[i].weight
		}
	}
	sleeps := polls || asleep < habitSleep*all
	own := func(x *step) int64 {
		if sleeps {
			return x.gap + x.slept
		}
		return x.gap
	}
	var codes []weighted
	for i := range steps {
		if x := &steps[i]; !x.vague() {
			codes = append(codes, weighted{own(x), x.weight})
		}
	}
	if len(codes) < minLearn {
		return nil
	}
	usual := quantile(codes, usualCode)
	isSlow := func(x *step) bool {
		more := own(x) - usual
		return more >= max((longCode-1)*usual, leastGrowth, int64(codeShare*float64(x.length)))
	}
	var lengths []weighted
	for i := range steps {
		if x := &steps[i]; !x.vague() && !isSlow(x) {
			lengths = append(lengths, weighted{w.e.alone(x), x.weight})
		}
	}
	if len(lengths) < minFree {
		return nil
	}
	normal := quantile(lengths, 0.5)
	for i := range steps {
		x := &steps[i]
		more := own(x) - usual
		if x.vague() || !isSlow(x) || x.marks&otherWork != 0 || max(x.sum, x.waited) > more {
			continue
		}
		if lost := min(more, w.e.alone(x)-normal); lost > 0 {
			y := slowStep{step: x, at: i, usual: usual, lost: lost}
			if sleeps {
				y.asleep = x.slept
			}
			out = append(out, y)
		}
	}
	return out
}

// decisive returns the slow steps that lose the most: together decisiveShare of the loss, and all that lose
// half as much as the least of these.
func decisive(slow []slowStep) []slowStep {
	slow = slices.Clone(slow)
	slices.SortStableFunc(slow, func(a, b slowStep) int { return cmp.Compare(b.lost, a.lost) })
	all, sum, least := 0.0, 0.0, int64(0)
	for i := range slow {
		all += slow[i].weight * float64(slow[i].lost)
	}
	for i := range slow {
		if sum >= decisiveShare*all && 2*slow[i].lost < least {
			return slow[:i]
		}
		if sum < decisiveShare*all {
			least = slow[i].lost
		}
		sum += slow[i].weight * float64(slow[i].lost)
	}
	return slow
}

// recurs reports whether slow steps of a thread recur all the time: no time without one among its steps is much
// longer than usual. What others of all slow steps lose does not count, nor does the time of steps with other work, or
// whose calls were not all measured.
func recurs(slow, all []slowStep, steps []step) bool {
	if len(slow) < fewestHabit || len(steps) == 0 {
		return false
	}
	isSlow := make(map[int64]bool, len(slow))
	for i := range slow {
		isSlow[slow[i].to()] = true
	}
	lost := make(map[int64]float64, len(all))
	for i := range all {
		lost[all[i].to()] = all[i].weight * float64(all[i].lost)
	}
	inOrder := make([]*step, len(steps))
	first := steps[0].from
	for i := range steps {
		inOrder[i], first = &steps[i], min(first, steps[i].from)
	}
	slices.SortFunc(inOrder, func(a, b *step) int { return cmp.Compare(a.to(), b.to()) })
	var gaps []weighted
	last, longest, unmeasured := first, int64(0), 0.0
	gap := func(to int64) {
		ns := max(to-last-int64(unmeasured), 0)
		gaps = append(gaps, weighted{ns, 1})
		longest, unmeasured = max(longest, ns), 0
	}
	for _, x := range inOrder {
		switch {
		case isSlow[x.to()]:
			gap(x.from)
			last = x.to()
		case x.vague(), x.marks&otherWork != 0:
			unmeasured += x.weight * float64(x.length)
		default:
			unmeasured += lost[x.to()]
		}
	}
	gap(inOrder[len(inOrder)-1].to())
	return float64(longest) < habitGaps*math.Log2(float64(len(gaps)))*float64(quantile(gaps, usualGap))
}

// explained reports whether findings of other rules explain most of a loss of CPU time. Waits are no part
// of it, but what causes them may cost CPU time, too: as much as half of the waits, while they last.
func (w *Window) explained(x *Finding) bool {
	other := reclaimCPU * int64(w.sum(tick.HostCgroupReclaim, x.PID, x).NS) // memory-limit may not be known yet
	limits := []string{memoryLimit.Name}
	if w.unseen(x.PID, x.From, x.To)&govern.HostEvents != 0 { // a limit may be why it waits for a disk
		limits = append(limits, diskWait.Name)
	}
	for r := range Rules {
		if r == w.running {
			continue
		}
		for _, o := range w.runRule(r) {
			switch {
			case o.PID != x.PID || o.From > x.To || x.From > o.To:
			case slices.Contains(limits, Rules[r].Name):
				other += reclaimCPU * o.Lost
			case Rules[r].Claims == nil:
				other += o.Lost
			case o.onCPU && o.From <= x.From+soon && o.To >= x.To-soon:
				other += o.Lost / 2
			}
		}
	}
	return 2*other > x.Lost
}
