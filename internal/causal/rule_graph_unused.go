package causal

import (
	"fmt"

	"ingero/internal/tick"
)

const (
	idleGraph  = int64(1e9) // ns without a launch of any
	eagerSteps = 20         // of kernels launched one by one meanwhile
)

var graphUnused = Rule{
	Name: "graph-unused", Needs: NeedCalls | NeedState, Share: 0.01, Problems: []string{"6b"},
	Doc: "Graphs were captured and are not launched: the kernels go on one by one, and the host is what holds the GPU up.",
	Find: func(f *Facts) (out []Finding) {
		f.living(2e9, func(b *Book) {
			s := f.State(b.PID)
			if s == nil {
				return
			}
			g := idleGraphs(s, f.Now())
			c := f.costs(b.PID)
			if y := &c.of[costNoGraph]; g != nil && y.steps >= eagerSteps && y.last > max(g.LastLaunch, g.Instantiated)+idleGraph/2 {
				x := c.finding(b.PID, costNoGraph, fmt.Sprintf("%.0f steps of kernels launched one by one", y.steps))
				x.Op = y.worstOp(launchOp)
				x.Timeline = append(x.Timeline, moment(g.Instantiated, "CUDA", "a graph of %d launches is instantiated", g.CaptureLaunches))
				out = append(out, x)
			}
		})
		return out
	},
}

// idleGraphs returns the graph that was launched last, if all that there are have not been
// launched for a while; nil otherwise.
func idleGraphs(s *tick.State, now int64) (last *tick.Graph) {
	for i := range s.Graphs.First {
		g := &s.Graphs.First[i]
		if g.Instantiated == 0 || g.Destroyed != 0 {
			continue
		}
		if used := max(g.LastLaunch, g.Instantiated); now-used < idleGraph {
			return nil
		}
		if g.CaptureLaunches > 1 && (last == nil || g.LastLaunch > last.LastLaunch) {
			last = g
		}
	}
	return last
}
