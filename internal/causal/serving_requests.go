package causal

import (
	"cmp"
	"slices"
	"sort"

	"ingero/internal/ledger"
	"ingero/internal/tick"
)

// requestTimes count a server's requests at any time. Requests without a response yet are missing.
type requestTimes struct {
	arrived, first, ended counter    // first: see Request.running
	prompts               []int64    // see Server
	undivided             []timeSpan // see Server
}

// counter counts events up to a time.
type counter struct {
	at  []int64   // sorted, Unix ns
	sum []float64 // up to and including at
}

// times returns the times of a server's requests.
func (s *Server) times() (x requestTimes) {
	x.arrived = s.count(func(r *Request) int64 { return r.Arrived })
	x.first = s.count((*Request).running)
	x.ended = s.count(func(r *Request) int64 { return r.EndTime() })
	x.prompts, x.undivided = s.prompts, s.undivided
	return x
}

// prompted returns when the prompt of a divided request was computed, in Unix ns.
func (r *Request) prompted() int64 {
	p := &r.AtOnce
	return r.First() - int64(r.ToFirst.Deliver+p.Idle+p.Own+p.Prompts+p.Tokens+p.Steps)
}

// running returns since when the engine computed a request's tokens, in Unix ns: since its first byte,
// or since the end of its prompt if its response was sent at once.
func (r *Request) running() int64 {
	if r.AtOnce == (tick.RequestTime{}) {
		return r.First()
	}
	return r.prompted()
}

// usualTime returns how long nine of ten requests take until their last byte, ns. Before a request ends,
// the step that computed its prompt is not known as such.
func (s *Server) usualTime() int64 {
	took := make([]weighted, len(s.Requests))
	for i := range s.Requests {
		r := &s.Requests[i]
		took[i] = weighted{r.EndTime() - r.Arrived, r.Weight}
	}
	return quantile(took, 0.9)
}

// unknownLoss returns what a finding may have lost besides, ns: what undivided requests since its
// start took longer than usual for their number of events.
func (s *Server) unknownLoss(x *Finding) float64 {
	if !slices.ContainsFunc(s.Requests, func(r Request) bool { return !r.Split && r.Arrived >= x.From }) {
		return 0
	}
	var first, perEvent []weighted
	for i := range s.Requests {
		r := &s.Requests[i]
		first = append(first, weighted{int64(r.Request.First), r.Weight})
		if r.Events > 1 {
			perEvent = append(perEvent, weighted{int64(r.Last-r.Request.First) / int64(r.Events-1), r.Weight})
		}
	}
	usualFirst, usualEvent := quantile(first, 0.25), quantile(perEvent, 0.25)
	var list []standing
	for i := range s.Requests {
		r := &s.Requests[i]
		took, usual := r.EndTime()-r.Arrived, usualFirst+int64(max(r.Events, 1)-1)*usualEvent
		if !r.Split && r.Arrived >= x.From && 2*took >= 3*usual {
			list = append(list, standing{r.Arrived, r.EndTime(), took - usual, r.Weight})
		}
	}
	return unionOf(list).most
}

// count returns the times of one event of each request.
func (s *Server) count(at func(*Request) int64) (c counter) {
	all := make([]weighted, len(s.Requests))
	for i := range s.Requests {
		all[i] = weighted{at(&s.Requests[i]), s.Requests[i].Weight}
	}
	slices.SortFunc(all, func(a, b weighted) int { return cmp.Compare(a.v, b.v) })
	sum := 0.0
	for _, x := range all {
		sum += x.w
		c.at, c.sum = append(c.at, x.v), append(c.sum, sum)
	}
	return c
}

// before returns the number of events before a time.
func (c *counter) before(ns int64) float64 {
	n := sort.Search(len(c.at), func(i int) bool { return c.at[i] >= ns })
	if n == 0 {
		return 0
	}
	return c.sum[n-1]
}

// running returns how many requests were between their first token and their last byte for all of a
// step's work.
func (x *requestTimes) running(p *step) float64 {
	return max(x.first.before(p.to()-p.busy()+sameStep)-x.ended.before(p.to()), 0)
}

// waiting returns how many requests waited for a byte during some of a step's work.
func (x *requestTimes) waiting(p *step) float64 {
	return max(x.arrived.before(p.to())-x.ended.before(p.to()-p.busy()), 0)
}

// mayBePrompt reports whether a step computed the last part of a request's prompt, or may have done so
// for a request that is not divided.
func (x *requestTimes) mayBePrompt(p *step) bool {
	const exact = 100_000 // ns: other steps end at other times
	n := sort.Search(len(x.prompts), func(i int) bool { return x.prompts[i] >= p.to()-exact })
	if n < len(x.prompts) && x.prompts[n] <= p.to()+exact {
		return true
	}
	n = sort.Search(len(x.undivided), func(i int) bool { return x.undivided[i].to >= p.to() })
	return n < len(x.undivided) && x.undivided[n].from < p.to()
}

// eager reports whether a step probably computed tokens without a graph: it computed no prompt, and
// the GPU waited for the thread, which launched the kernels one by one.
func (x *requestTimes) eager(p *step) bool {
	return p.marks&(ledger.MarkGraph|ledger.MarkCapture) == 0 && p.launches > 1 && p.gpu*3 < p.work() && !x.mayBePrompt(p)
}

// tokens reports whether a step computed tokens with a graph.
func (x *step) tokens() bool {
	return x.marks&(ledger.MarkGraph|ledger.MarkCapture) == ledger.MarkGraph
}

// work returns how long a step was on a CPU or waited for the GPU, ns.
func (r *record) work() int64 { return r.cpu + r.gpu }

// alone returns how long a step took without its wait for requests and without what it lost to
// causes other than its own calls, ns.
func (e *Engine) alone(x *step) int64 { return max(x.length-int64(e.others(x, noOp, true)), 0) }

// medianOf returns the median of a value of the selected steps. ok is false if they are few.
func medianOf(steps []step, match func(*step) bool, value func(*step) int64) (v int64, ok bool) {
	var all []weighted
	for i := range steps {
		if x := &steps[i]; match(x) {
			all = append(all, weighted{value(x), x.weight})
		}
	}
	if len(all) < minFree {
		return 0, false
	}
	return quantile(all, 0.5), true
}

// warmUps returns the ends of the steps that ran a graph's kernels once, right before the step that
// captured the graph.
func (x *requestTimes) warmUps(steps []step) map[int64]bool {
	captured, out := map[int64]bool{}, map[int64]bool{}
	for i := range steps {
		if p := &steps[i]; p.marks&ledger.MarkCapture != 0 {
			captured[p.from] = true
		}
	}
	for i := range steps {
		if p := &steps[i]; captured[p.to()] && p.launches > 1 && p.marks&(ledger.MarkGraph|ledger.MarkCapture) == 0 && !x.mayBePrompt(p) {
			out[p.to()] = true
		}
	}
	return out
}

// charge adds a step that delayed requests to a finding. lost is in [least, most], ns.
func (x *Finding) charge(p *step, least, lost, most int64) {
	sum := func(to *int64, ns int64) { *to += int64(p.weight * float64(max(ns, 0))) }
	sum(&x.Min, min(least, lost))
	sum(&x.Lost, lost)
	sum(&x.Max, max(lost, most))
	x.cover(p.to()-p.busy(), p.to())
	x.spread.add(p.to()-p.busy(), p.to(), p.weight*float64(max(lost, 0)))
}

// servedOr returns a Find that runs served for each server whose engine is known, and other for all
// other processes.
func servedOr(served func(w *Window, s *Server, steps []step) (x Finding, ok bool), other func(*Window) []Finding) func(*Window) []Finding {
	return func(w *Window) []Finding {
		rest := slices.DeleteFunc(other(w), func(x Finding) bool { return w.runsEngine(x.PID) })
		return append(eachServer(served)(w), rest...)
	}
}

// runsEngine reports whether a process has the known engine of a server.
func (w *Window) runsEngine(pid uint32) bool {
	for _, s := range w.e.servers {
		if engine := w.e.series[s.Engine]; engine != nil && engine.pid == pid {
			return true
		}
	}
	return false
}
