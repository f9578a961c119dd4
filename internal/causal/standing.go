package causal

import (
	"cmp"
	"math"
	"slices"
)

// standing is a part of an interval in which a request stood still, or waited: it is not known when in
// the interval.
type standing struct {
	from, to int64   // Unix ns
	ns       int64   // of the interval
	weight   float64 // requests
}

// union is the time in which at least one of many requests stood still, ns.
type union struct {
	lost float64 // if they stood still independently of each other
	most float64 // if they did so one after the other, as far as possible
	sum  float64 // over the requests
}

// unionOf bounds the time in which at least one request stood still. The parts are spread evenly over
// their intervals. Known parts, which fill their intervals, have an exact union.
func unionOf(list []standing) (u union) {
	type edge struct {
		at int64
		x  *standing
		in bool
	}
	edges := make([]edge, 0, 2*len(list))
	for i := range list {
		if x := &list[i]; x.to > x.from && x.ns > 0 {
			edges = append(edges, edge{x.from, x, true}, edge{x.to, x, false})
			u.sum += x.weight * float64(x.ns)
		}
	}
	slices.SortStableFunc(edges, func(a, b edge) int { return cmp.Compare(a.at, b.at) })
	covered := 0.0
	var running []*standing
	for i, e := range edges {
		if i > 0 && len(running) > 0 {
			d := float64(e.at - edges[i-1].at)
			none := 1.0
			for _, x := range running {
				none *= math.Pow(1-min(float64(x.ns)/float64(x.to-x.from), 1), x.weight)
			}
			covered += d
			u.lost += d * (1 - none)
		}
		if e.in {
			running = append(running, e.x)
			continue
		}
		n := slices.Index(running, e.x)
		running = slices.Delete(running, n, n+1)
	}
	u.most = min(u.sum, covered)
	return u
}
