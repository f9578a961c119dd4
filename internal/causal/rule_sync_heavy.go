package causal

import (
	"fmt"

	"ingero/internal/govern"
)

const (
	syncsASecond = 1000    // tiny steps
	syncsOfSteps = 0.8     // share of a second's steps that are tiny
	syncStep     = 500_000 // longest tiny step, ns
	fewLaunches  = 3       // of a tiny step, at most
	manyLaunches = 8       // in a step with a single wait
	// syncsElse is the share of the other seconds' time in tiny steps from which on these are usual work.
	syncsElse = 0.1
	syncTrip  = 30_000 // longest usual way to the GPU and back, ns
	// A stretch of tiny steps may all be unnecessary if the host or the GPU is idle for this share of it, and if the host
	// works for that share: while the GPU executes the kernels of a solver, the waits cost little.
	syncsIdle, syncsHost = 0.25, 0.1
)

var syncHeavy = Rule{
	Name: "sync-heavy", Sees: govern.LaunchCounts, Needs: NeedCalls, Share: 0.05, Problems: []string{"8", "12"},
	Doc: "The host waits for the GPU after every few launches, all the time or for a while. The GPU is idle while the host prepares the next launch.",
	Find: eachProcess(2e9, func(w *Window, b *ProcessHistory) (x Finding, ok bool) {
		y := w.syncs(b.PID)
		if y.steps == 0 {
			return x, false
		}
		x = y.finding(fmt.Sprintf("%.0f waits a second, %s apart", max(y.rate, y.steps*1e9/float64(y.last-y.first)), span(int64(y.own/y.steps))))
		x.Op, x.Stack, x.Baseline = y.worst.op, y.stack, "host and GPU working at the same time"
		if y.once {
			x.Baseline = "the rest of the run, with hardly any such waits"
			if x.Stack == 0 { // other waits have most of the operation's time
				x.Op = 0
			}
		}
		x.Confidence = 0.7
		return x, true
	}),
}

// syncCost is the cost of waiting after every few launches.
type syncCost struct {
	*cost
	rate  float64 // waits a second, in those seconds
	once  bool    // the program did so for a while, and hardly at other times
	stack uint32  // of most of the waits, 0: unknown
}

// isTiny reports whether a step is a wait after few launches.
func (x *step) isTiny() bool {
	return !x.period && !x.graphs() && x.launches >= 1 && x.launches <= fewLaunches && x.length < syncStep
}

// seconds has a flag for each second of the window, and for those beside it.
type seconds [2 * windowSeconds]bool

func (s *seconds) at(ns int64) *bool { return &s[ns/1e9%int64(len(s))] }

// runs returns the number of runs of successive seconds.
func (s *seconds) runs() (n int) {
	for i := range s {
		if s[i] && !s[(i+len(s)-1)%len(s)] {
			n++
		}
	}
	return n
}

// syncing returns the seconds in which nearly all of very many steps are tiny, and the seconds beside these: the edges of
// a stretch. The steps of a second are a sample. rate is the number of tiny steps a second in the former; 0: there are none.
func (p *process) syncing() (in seconds, rate float64) {
	var all, tiny [len(in)]float64
	for i := range p.list {
		x := &p.list[i]
		second := x.to() / 1e9 % int64(len(in))
		all[second] += x.weight
		if x.isTiny() {
			tiny[second] += x.weight
		}
	}
	found := 0.0
	for i, n := range tiny {
		if n >= syncsASecond && n >= syncsOfSteps*all[i] {
			in[(i+len(in)-1)%len(in)], in[i], in[(i+1)%len(in)] = true, true, true
			found, rate = found+1, rate+n
		}
	}
	return in, rate / max(found, 1)
}

// syncs adds up the cost of waiting after every few launches: the GPU idles while the host makes the next
// launch, and the host idles while the GPU works. If the thread also has steps of many launches,
// these show what a launch takes. What a program does only for a while may all be unnecessary.
func (w *Window) syncs(pid uint32) *syncCost {
	y := &syncCost{cost: &cost{process: w.process(pid)}}
	var in seconds
	if in, y.rate = y.syncing(); y.rate == 0 {
		return y
	}
	var host, gpu, launches, others, tinyOthers float64
	var waits, each []weighted
	stacks := map[uint32]float64{}
	for i := range y.list {
		x := &y.list[i]
		switch inside := *in.at(x.to()); {
		case x.period:
			continue
		case x.isTiny() && inside:
			y.steps += x.weight
			host += x.weight * float64(x.length-x.gpu)
			gpu += x.weight * float64(x.gpu)
			launches += x.weight * float64(x.launches)
			waits = append(waits, weighted{x.gpu, x.weight})
			stacks[x.closedAt] += x.weight * float64(x.length)
			y.see(x, use{}, x.length)
			continue
		case x.isTiny():
			tinyOthers += x.weight * float64(x.length)
		case x.launches >= manyLaunches:
			each = append(each, weighted{x.length / int64(x.launches), x.weight})
		}
		others += x.weight * float64(x.length)
	}
	y.own, y.without, y.stack = host+gpu, y.p99, mostOf(stacks)
	// The shortest waits are the GPU's own time; the others include the way there and back.
	shortest := float64(quantile(waits, baselineQuantile))
	idle := y.own - max(host, y.steps*shortest)
	y.once = others >= y.own && tinyOthers < syncsElse*others && in.runs() == 1 && idle >= syncsIdle*y.own && host >= syncsHost*y.own
	if len(each) >= minFree {
		y.compared, y.base = true, quantile(each, 0.5)
		y.lost = max(y.own-max(launches*float64(y.base), host, y.steps*(shortest-syncTrip)), 0) // other launches may have less work
		y.min, y.max = y.lost, y.lost
	} else {
		y.lost, y.min, y.max = idle, min(host, gpu), gpu
	}
	if y.once {
		y.min, y.lost, y.max = min(y.min, y.lost), y.own, y.own
	}
	return y
}

// mostOf returns the stack with the most time; 0: no stack is known.
func mostOf(stacks map[uint32]float64) (stack uint32) {
	for id, ns := range stacks {
		if id != 0 && (stack == 0 || ns > stacks[stack] || ns == stacks[stack] && id < stack) {
			stack = id
		}
	}
	return stack
}
