package causal

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"sort"
	"time"

	"ingero/internal/govern"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

const (
	usualFront = int64(10e6) // ns: a server that hands a request over in this time is not slow
	fewKnown   = 0.25        // of the engine's waits: less of a known account does not show what the server did
)

// frontendSlow excludes the time in which the server's processes had no CPU: cpu-taken and its like
// report that.
var frontendSlow = Rule{
	Name: "frontend-slow", Sees: govern.GraphLaunches, Needs: NeedRequests | NeedCalls | NeedWaits, Share: 0.05,
	Doc:  "Requests to an inference server waited in the server's own processes, such as the API server or a tokenizer, before its engine had them.",
	Find: eachServer((*Window).beforeEngine),
}

// beforeEngine adds up the time in which the engine waited for work, and at least one request for the
// engine: that is certain. A request may also have waited while the engine computed tokens for others.
// That is in the upper bound: as much of it as the server's metrics allow, all of it without them.
func (w *Window) beforeEngine(s *Server, steps []step) (x Finding, ok bool) {
	normal := max(usualFront, 2*usualToken(steps))
	shares := s.frontShares()
	var idle, most, all []standing
	waited := map[uint32]float64{} // ns, by PID of the process that read the requests
	for i := range s.Requests {
		r := &s.Requests[i]
		if !r.Split {
			continue
		}
		n := len(idle)
		if idle = r.before(idle, 0, normal); len(idle) > n {
			x.span(r.whole(), idle[n].to, r.Weight)
			waited[r.PID] += r.Weight * float64(idle[n].to-idle[n].from)
		}
		share := 1.0
		if at := s.readAt(r.First()); at >= 0 {
			share = shares[at]
		}
		most, all = r.before(most, share, normal), r.before(all, 1, normal)
	}
	if x.Slow == 0 {
		return x, false
	}
	measured, withCPU := s.idleIn(steps, all)
	u := unionOf(idle) // when in its wait a request found the engine idle is a guess
	lost := int64(withCPU * min(measured, u.lost))
	x.Lost, x.Min, x.Max = lost, lost, int64(withCPU*max(unionOf(most).lost, u.lost))
	x.Baseline = fmt.Sprintf("a request is handed over within %s", span(normal))
	x.Culprits = []tick.Culprit{w.frontEnd(s, waited)}
	x.Culprits[0].Lost = time.Duration(x.Lost)
	x.Timeline = []tick.Moment{moment(x.From, "HOST", "first request that waited in the server; %d waited %s in all", x.Slow, span(int64(u.sum)))}
	return x, true
}

// whole returns when the server had read all of the request, in Unix ns.
func (r *Request) whole() int64 { return r.Arrived + int64(r.Whole) }

// front returns how long after that the engine had the request, if it computed tokens for others in
// a share of that time, ns.
func (r *Request) front(share float64) int64 {
	return int64(r.ToFirst.Idle-r.AtOnce.Idle) + int64(share*float64(r.ToFirst.Tokens-r.AtOnce.Tokens))
}

// before adds the time in which a request waited for the engine longer than normal.
func (r *Request) before(to []standing, share float64, normal int64) []standing {
	ns := r.front(share) - normal
	if ns <= 0 {
		return to
	}
	return append(to, standing{r.whole() + normal, r.whole() + normal + ns, ns, r.Weight})
}

// readAt returns the index of the read of the metrics that covers a time, or -1.
func (s *Server) readAt(at int64) int {
	return slices.IndexFunc(s.Reads, func(x tick.Inference) bool {
		return !x.Since.IsZero() && x.Since.UnixNano() < at && at <= x.Time.UnixNano()
	})
}

// frontShares returns, for each read, the share of the engine's time for tokens in which the requests
// of that time may not have been in its queue yet: 1 if the metrics do not tell. The time to the first
// token begins in the server, the queue in the engine. Prompts of others do not count: a request that
// comes in such a step is not read before its end.
func (s *Server) frontShares() []float64 {
	shares, tokens := make([]float64, len(s.Reads)), make([]float64, len(s.Reads))
	for i := range s.Requests {
		r := &s.Requests[i]
		if at := s.readAt(r.First()); at >= 0 && r.Split {
			shares[at] -= r.Weight * float64(r.ToFirst.Idle-r.AtOnce.Idle+r.ToFirst.Prompts+r.ToFirst.Deliver)
			tokens[at] += r.Weight * float64(r.ToFirst.Tokens-r.AtOnce.Tokens)
		}
	}
	for i := range s.Reads {
		x := &s.Reads[i]
		if x.FirstToken == nil || x.Queue == nil || x.Prefill == nil || x.FirstToken.Count*x.Queue.Count*x.Prefill.Count == 0 {
			shares[i] = 1
			continue
		}
		queued := x.Queue.Sum/float64(x.Queue.Count) + x.Prefill.Sum/float64(x.Prefill.Count)
		front := shares[i] + 1e9*(x.FirstToken.Sum-float64(x.FirstToken.Count)*queued)
		shares[i] = min(max(front/max(tokens[i], 1), 0), 1)
	}
	return shares
}

// idleIn returns how long the engine waited for work while requests did, ns, and the share of that
// time in which the threads that it waited for were not kept from a CPU. If little is known of them,
// the engine's own waits for a CPU stand for theirs.
func (s *Server) idleIn(steps []step, requests []standing) (ns, withCPU float64) {
	spans := make([]timeSpan, len(requests))
	for i := range requests {
		spans[i] = timeSpan{requests[i].from, requests[i].to}
	}
	spans = merged(spans)
	var work, own struct{ done, kept float64 }
	for i := range steps {
		p := &steps[i]
		own.done += p.weight * float64(p.cpu)
		own.kept += p.weight * float64(p.waited)
		if in := p.awaitedIn(spans); in > 0 {
			share := p.weight * float64(in) / float64(p.awaited)
			ns += p.weight * float64(in)
			work.done += share * float64(p.worked)
			work.kept += share * float64(p.starved)
		}
	}
	if work.done+work.kept < fewKnown*ns || ns == 0 {
		work = own
	}
	return ns, 1 - work.kept/max(work.done+work.kept, 1)
}

// timeSpan is a time range in Unix ns.
type timeSpan struct{ from, to int64 }

// merged returns the union of time ranges, which it overwrites: ranges in order, which do not overlap.
func merged(spans []timeSpan) []timeSpan {
	slices.SortFunc(spans, func(a, b timeSpan) int { return cmp.Compare(a.from, b.from) })
	out := spans[:0]
	for _, x := range spans {
		if n := len(out); n > 0 && x.from <= out[n-1].to {
			out[n-1].to = max(out[n-1].to, x.to)
			continue
		}
		out = append(out, x)
	}
	return out
}

// awaitedIn returns how long a step waited for work in these ranges, ns. The wait comes first in a
// step.
func (r *record) awaitedIn(spans []timeSpan) (ns int64) {
	return overlap(spans, r.from, r.from+min(r.awaited, r.length))
}

// overlap returns how much of [from, to] is in ordered ranges, ns.
func overlap(spans []timeSpan, from, to int64) (ns int64) {
	first := sort.Search(len(spans), func(i int) bool { return spans[i].to > from })
	for _, x := range spans[first:] {
		if x.from >= to {
			break
		}
		ns += min(x.to, to) - max(x.from, from)
	}
	return ns
}

// frontEnd returns the process of the server that worked for most of the time in which the engine
// waited for data; if that is unknown, the process whose requests waited longest (waited, by PID).
func (w *Window) frontEnd(s *Server, waited map[uint32]float64) (c tick.Culprit) {
	engine := w.e.series[s.Engine].pid
	longest := slices.MinFunc(slices.Collect(maps.Keys(waited)), func(a, b uint32) int {
		return cmp.Or(cmp.Compare(waited[b], waited[a]), cmp.Compare(a, b))
	})
	c.Thread.PID, c.Thread.TID = longest, longest
	c.Thread.Name, _ = w.name(longest)
	at := w.feeder(engine, func(at *events.Thread) bool {
		return at.PID != engine && (waited[at.PID] > 0 || w.e.relations.relation(longest, at).InJob())
	})
	if at.TID != 0 {
		c = tick.Culprit{Thread: at, What: "ran on a CPU while requests waited", Root: tick.Root{Did: tick.ActivityCompute}}
	}
	return c
}

// feeder returns the thread that was on a CPU for most of the time in which a process waited for data,
// of those that match; TID 0: unknown.
func (w *Window) feeder(pid uint32, match func(*events.Thread) bool) (thread events.Thread) {
	most := uint64(0)
	for i := range w.Tick.Breakdowns {
		b := &w.Tick.Breakdowns[i]
		for j := range b.BlockedOn {
			x := &b.BlockedOn[j]
			if b.PID != pid || x.Waker == nil || !forData(x.Reason) || x.Waker.OnCPU <= most {
				continue
			}
			at := x.Who
			if x.Waker.Root.TID != 0 {
				at = x.Waker.Root
			}
			if match(&at) {
				most, thread = x.Waker.OnCPU, at
			}
		}
	}
	return thread
}

// forData reports whether a thread that blocks for a reason waits for data from other threads or
// processes.
func forData(r events.Reason) bool {
	return r == events.ReasonPipe || r == events.ReasonSocket || r == events.ReasonPoll
}
