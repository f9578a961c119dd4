package causal

import (
	"cmp"
	"fmt"
	"slices"

	"ingero/internal/govern"
	"ingero/internal/tick"
)

const (
	idleGraph = int64(1e9) // ns without a graph launch
	manyEager = 20         // kernels launched one by one meanwhile
)

// eagerSteps are steps of as many single launches as a graph would make at once.
var eagerSteps = stepKind{class: launchOp, allExtra: true, match: func(x *step, _ use, _ *process) bool {
	return !x.graphs() && x.launches > 1 && x.gpu*3 < x.length
}}

var graphUnused = Rule{
	Name: "graph-unused", Sees: govern.LaunchTimes, Rests: govern.LaunchCounts, Needs: NeedCalls | NeedState, Share: 0.01, Problems: []string{"6b"},
	Doc: "Graphs were captured but are not launched. Kernels are launched one by one, and the GPU waits for the host.",
	Find: eachProcess(2e9, func(w *Window, b *ProcessHistory) (x Finding, ok bool) {
		y := w.cost(b.PID, &eagerSteps)
		g := unused(w.State(b.PID), eagerOf(y.list))
		if g == nil || y.steps < manyEager {
			return x, false
		}
		x = y.finding(fmt.Sprintf("%.0f steps with kernels launched one by one", y.steps))
		x.Op = y.worstOp(launchOp)
		x.Timeline = append([]tick.Moment{moment(g.Instantiated, "CUDA", "a graph of %d launches is instantiated", g.CaptureLaunches)}, x.Timeline...)
		return x, true
	}),
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
