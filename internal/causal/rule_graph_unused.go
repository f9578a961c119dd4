package causal

import (
	"cmp"
	"fmt"
	"math/bits"
	"slices"
	"time"

	"ingero/internal/govern"
	"ingero/internal/tick"
)

const (
	idleGraph = int64(1e9) // ns without a graph launch
	manyEager = 20         // kernels launched one by one meanwhile

	longAnswer = int64(15e9) // ns: where requests take longer, few prompts are computed meanwhile
)

// eagerSteps are steps of as many single launches as a graph would make at once.
var eagerSteps = stepKind{class: launchOp, allExtra: true, match: func(x *step, _ use, _ *process) bool {
	return !x.graphs() && x.launches > 1 && x.gpu*3 < x.length
}}

var graphUnused = Rule{
	Name: "graph-unused", Sees: govern.LaunchTimes, Rests: govern.LaunchCounts, Needs: NeedCalls | NeedState, Share: 0.01, Problems: []string{"6b"},
	Doc: "Graphs were captured but are not launched. Kernels are launched one by one, and the GPU waits for the host.",
	Find: servedOr((*Window).withoutGraph, eachProcess(2e9, func(w *Window, b *ProcessHistory) (x Finding, ok bool) {
		y := w.cost(b.PID, &eagerSteps)
		g := unused(w.State(b.PID), eagerOf(y.list))
		if g == nil || y.steps < manyEager {
			return x, false
		}
		x = y.finding(fmt.Sprintf("%.0f steps with kernels launched one by one", y.steps))
		x.Op = y.worstOp(launchOp)
		x.Timeline = append([]tick.Moment{moment(g.Instantiated, "CUDA", "a graph of %d launches is instantiated", g.CaptureLaunches)}, x.Timeline...)
		return x, true
	})),
}

// withoutGraph adds up how much longer the steps for tokens without a graph took in a server's
// engine than those with a graph and about as many requests.
func (w *Window) withoutGraph(s *Server, steps []step) (x Finding, ok bool) {
	pid := w.e.series[s.Engine].pid
	w.process(pid) // finds the steps whose graph launches have no record
	times := s.times()
	warm := times.warmUps(steps)
	eager := func(p *step) bool {
		return times.eager(p) && !p.graph && !warm[p.to()] && times.running(p) > 0
	}
	size := func(p *step) int { return bits.Len(uint(times.running(p) + 0.5)) }
	token, compared := medianOf(steps, (*step).tokens, w.e.alone)
	normal := w.normalBySize(steps, size, token)
	var running []weighted
	slow, sure, delayed := 0.0, 0.0, 0.0
	answered := w.Now() - min(s.usualTime(), longAnswer)
	for i := range steps {
		p := &steps[i]
		if !eager(p) {
			continue
		}
		lost := w.e.alone(p) - normal[size(p)]
		if lost <= 0 {
			continue
		}
		least := lost
		if !compared { // how long a graph would take is unknown
			least, lost = 0, lost/2
		}
		x.charge(p, least, lost, p.busy()-normal[size(p)])
		if slow += p.weight; p.to() < answered {
			sure += p.weight
		}
		running = append(running, weighted{int64(times.running(p) + 0.5), p.weight})
		delayed += p.weight * float64(lost) * times.running(p)
	}
	if x.Slow = int(slow + 0.5); sure < manyEager || !compared && !hasGraph(w.State(pid)) {
		return x, false
	}
	x.Baseline = "steps of this run with a graph, for about as many requests"
	if !compared {
		x.Baseline = "unknown, because no step had a graph"
	}
	from, to := quantile(running, 0.05), quantile(running, 0.95)
	x.Culprits = []tick.Culprit{{What: fmt.Sprintf("%d steps without a graph, with %s running, which waited %s in all", x.Slow, requestsText(from, to), span(int64(delayed))), Lost: time.Duration(x.Lost)}}
	return x, true
}

// normalBySize returns the median time of steps for tokens by size; of few, that of all.
func (w *Window) normalBySize(steps []step, size func(*step) int, all int64) (normal [bits.UintSize + 1]int64) {
	var list [bits.UintSize + 1][]weighted
	for i := range steps {
		if p := &steps[i]; p.tokens() {
			n := size(p)
			list[n] = append(list[n], weighted{w.e.alone(p), p.weight})
		}
	}
	for n := range normal {
		if normal[n] = all; len(list[n]) >= minFree {
			normal[n] = quantile(list[n], 0.5)
		}
	}
	return normal
}

// hasGraph reports whether a process has a graph of several launches, or launched one before.
func hasGraph(s *tick.State) bool {
	return s != nil && slices.ContainsFunc(s.Graphs.First, func(g tick.Graph) bool {
		return g.Destroyed == 0 && (g.CaptureLaunches > 1 && g.Instantiated != 0 || g.Launches > 0)
	})
}

// requestsText returns a range of numbers of requests.
func requestsText(from, to int64) string {
	switch {
	case to <= 1:
		return "1 request"
	case from == to:
		return fmt.Sprintf("%d requests", to)
	}
	return fmt.Sprintf("%d to %d requests", from, to)
}

// eager is the longest time in which a thread's steps launched kernels one by one, without a graph.
// idle is the part of it in which the thread waited for data.
type eager struct{ from, to, idle int64 }

func (e eager) busy() int64 { return e.to - e.from - e.idle }

func eagerOf(steps []step) (longest eager) {
	type interval struct {
		from, to, idle int64
		graph          bool
	}
	var all []interval
	for i := range steps {
		x := &steps[i]
		graph := x.graphs()
		if graph || eagerSteps.match(x, use{}, nil) {
			all = append(all, interval{x.from, x.to(), x.awaited, graph})
		}
	}
	slices.SortFunc(all, func(a, b interval) int { return cmp.Compare(a.from, b.from) })
	var open eager
	for _, x := range all {
		switch {
		case x.graph:
			open = eager{}
		case open.from == 0:
			open = eager{x.from, x.to, x.idle}
		default:
			open.to, open.idle = x.to, open.idle+x.idle
		}
		if open.busy() > longest.busy() {
			longest = open
		}
	}
	return longest
}

// unused returns a graph that could have been launched for long in that time, or nil.
func unused(s *tick.State, e eager) *tick.Graph {
	if s == nil {
		return nil
	}
	for i := range s.Graphs.First {
		g := &s.Graphs.First[i]
		if g.CaptureLaunches > 1 && g.Instantiated != 0 && e.to-max(e.from, g.Instantiated)-e.idle >= idleGraph && (g.Destroyed == 0 || g.Destroyed > e.to) {
			return g
		}
	}
	return nil
}
