package causal

import (
	"cmp"
	"fmt"
	"slices"
	"time"

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
	Name: "frontend-slow", Needs: NeedCalls | NeedWaits, Share: 0.05,
	Doc:  "Requests to an inference server waited in the server's own processes, such as the API server or a tokenizer, before its engine had them.",
	Find: eachServer((*Window).beforeEngine),
}

// beforeEngine adds up the time in which the engine waited for work, and at least one request for the
// engine: that is certain. A request may also have waited while the engine computed tokens for others.
// That is in the upper bound: as much of it as the server's metrics allow, all of it without them.
func (w *Window) beforeEngine(s *Server, steps []step) (x Finding, ok bool) {
	normal := max(usualFront, 2*usualToken(steps))
	var idle, most, all []standing
	for i := range s.Requests {
		r := &s.Requests[i]
		if !r.Split {
			continue
		}
		n := len(idle)
		if idle = r.before(idle, 0, normal); len(idle) > n {
			x.span(r.whole(), idle[n].to, r.Weight)
		}
		most, all = r.before(most, s.frontShare(r.First()), normal), r.before(all, 1, normal)
	}
	if x.Slow == 0 {
		return x, false
	}
	least, withCPU := s.idleIn(steps, all)
	u := unionOf(idle)
	x.Lost, x.Min, x.Max = int64(withCPU*u.lost), int64(withCPU*min(least, u.lost)), int64(withCPU*max(unionOf(most).lost, u.lost))
	x.Baseline = fmt.Sprintf("a request is handed over within %s", span(normal))
	x.Culprits = []tick.Culprit{w.frontEnd(s)}
	x.Culprits[0].Lost = time.Duration(x.Lost)
	x.Timeline = []tick.Moment{moment(x.From, "HOST", "first request that waited in the server; %d waited %s in all", x.Slow, span(int64(u.sum)))}
	return x, true
}

// whole returns when the server had read all of the request, in Unix ns.
func (r *Request) whole() int64 { return r.Arrived + int64(r.Whole) }

// front returns how long after that the engine had the request, if it computed tokens for others in
// a share of that time, ns.
func (r *Request) front(share float64) int64 {
	return int64(r.ToFirst.Idle) + int64(share*float64(r.ToFirst.Tokens))
}

// before adds the time in which a request waited for the engine longer than normal.
func (r *Request) before(to []standing, share float64, normal int64) []standing {
	ns := r.front(share) - normal
	if ns <= 0 {
		return to
	}
	return append(to, standing{r.whole() + normal, r.whole() + normal + ns, ns, r.Weight})
}

// frontShare returns the share of the engine's time for tokens in which the requests of a time may not
// have been in its queue yet: 1 without metrics. The time to the first token begins in the server, the queue in the engine.
// Prompts of others do not count: a request that comes in such a step is not read before its end.
func (s *Server) frontShare(at int64) float64 {
	i := slices.IndexFunc(s.Reads, func(x tick.Inference) bool {
		return !x.Since.IsZero() && x.Since.UnixNano() < at && at <= x.Time.UnixNano()
	})
	if i < 0 {
		return 1
	}
	x := &s.Reads[i]
	if x.FirstToken == nil || x.Queue == nil || x.Prefill == nil || x.FirstToken.Count*x.Queue.Count*x.Prefill.Count == 0 {
		return 1
	}
	queued := x.Queue.Sum/float64(x.Queue.Count) + x.Prefill.Sum/float64(x.Prefill.Count)
	front := 1e9 * (x.FirstToken.Sum - float64(x.FirstToken.Count)*queued)
	tokens := 0.0
	for j := range s.Requests {
		if r := &s.Requests[j]; r.Split && r.First() > x.Since.UnixNano() && r.First() <= x.Time.UnixNano() {
			front -= r.Weight * float64(r.ToFirst.Idle+r.ToFirst.Prompts+r.ToFirst.Deliver)
			tokens += r.Weight * float64(r.ToFirst.Tokens)
		}
	}
	return min(max(front/max(tokens, 1), 0), 1)
}

// idleIn returns how long the engine waited for work while requests did, ns, and the share of that
// time in which the threads that it waited for were not kept from a CPU. If little is known of them,
// the engine's own waits for a CPU stand for theirs.
func (s *Server) idleIn(steps []step, requests []standing) (ns, withCPU float64) {
	slices.SortFunc(requests, func(a, b standing) int { return cmp.Compare(a.from, b.from) })
	var work, own struct{ done, kept float64 }
	for i := range steps {
		p := &steps[i]
		own.done += p.weight * float64(p.cpu)
		own.kept += p.weight * float64(p.waited)
		if in := p.awaitedIn(requests); in > 0 {
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

// awaitedIn returns how long a step waited for work while requests did, ns. The wait comes first in a
// step. The requests are in order.
func (r *record) awaitedIn(requests []standing) (ns int64) {
	from, until := r.from, r.from+min(r.awaited, r.length)
	for i := range requests {
		if x := &requests[i]; x.from < until && x.to > from {
			from = max(from, x.from)
			ns += min(x.to, until) - from
			from = min(x.to, until)
		}
	}
	return ns
}

// frontEnd returns the process of the server that worked for most of the time in which the engine
// waited for data; the server itself, if that is unknown.
func (w *Window) frontEnd(s *Server) (c tick.Culprit) {
	engine := w.e.series[s.Engine].pid
	c.Thread.PID, c.Thread.TID = s.PID, s.PID
	c.Thread.Name, _ = w.name(s.PID)
	most := uint64(0)
	for i := range w.Tick.Breakdowns {
		b := &w.Tick.Breakdowns[i]
		for j := range b.BlockedOn {
			x := &b.BlockedOn[j]
			if b.PID != engine || x.Waker == nil || !forData(x.Reason) || x.Waker.OnCPU <= most {
				continue
			}
			at := x.Who
			if x.Waker.Root.TID != 0 {
				at = x.Waker.Root
			}
			if at.PID != engine && (at.PID == s.PID || w.e.relations.relation(s.PID, &at).InJob()) {
				most = x.Waker.OnCPU
				c = tick.Culprit{Thread: at, What: "ran on a CPU while requests waited", Root: tick.Root{Did: tick.ActivityCompute}}
			}
		}
	}
	return c
}

// forData reports whether a thread that blocks for a reason waits for data from other threads or
// processes.
func forData(r events.Reason) bool {
	return r == events.ReasonPipe || r == events.ReasonSocket || r == events.ReasonPoll
}
