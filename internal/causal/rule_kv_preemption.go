package causal

import (
	"fmt"
	"slices"
	"sort"
	"time"

	"ingero/internal/govern"
	"ingero/internal/ledger"
	"ingero/internal/tick"
)

const (
	fewEvents  = 4 // of a response: fewer do not show that it missed tokens
	fewMissed  = 2 // steps for tokens that a request may miss without having lost its cache
	fewServed  = 8 // requests that show how many steps an event usually takes
	usualShare = 0.25
)

// kvPreemption rests on the server's count of preemptions: a full cache alone delays nobody who runs.
var kvPreemption = Rule{
	Name: "kv-preemption", Sees: govern.GraphLaunches, Needs: NeedRequests | NeedCalls, Share: 0.01,
	Doc:  "The KV cache of an inference server was full: running requests lost their cache, waited, and were computed again.",
	Find: eachServer((*Window).preempted),
}

// preempted bounds the time in which at least one request had lost its cache. Such a request got no
// tokens in some steps for tokens, until its prompt was computed again. The engine's other requests got
// theirs, so a slow step is no loss.
func (w *Window) preempted(s *Server, steps []step) (x Finding, ok bool) {
	full := s.preemptions()
	perEvent := s.stepsPerEvent()
	if full.preemptions == 0 || perEvent == 0 {
		return x, false
	}
	again := s.computedAgain(steps, &full)
	var list []standing
	for i := range s.Requests {
		r := &s.Requests[i]
		missed := float64(r.TokenSteps) - perEvent*float64(max(r.Events, 1)-1)
		if r.Events < fewEvents || missed < fewMissed || r.Refused > 0 || !full.contains(r.First(), r.EndTime()) {
			continue
		}
		ns := int64(float64(r.Last-r.Request.First) * missed / float64(r.TokenSteps))
		from, to := again.around(r.First(), r.EndTime(), ns)
		if ns = min(ns, to-from); ns <= 0 {
			continue
		}
		list = append(list, standing{from, to, ns, r.Weight})
		x.span(from, to, r.Weight)
	}
	u := unionOf(list)
	x.Lost, x.Min, x.Max = int64(u.lost), int64(u.lost), int64(u.most)
	x.Baseline = fmt.Sprintf("a request gets an event each %.1f steps for tokens", perEvent)
	x.Culprits = []tick.Culprit{{What: full.text(x.Slow), Lost: time.Duration(x.Lost)}}
	x.Timeline = []tick.Moment{moment(x.From, "CUDA", "first request without tokens; %d stood still for %s in all", x.Slow, span(int64(u.sum)))}
	return x, len(list) > 0
}

// stepsPerEvent returns how many steps for tokens an event usually takes; 0: unknown. It is 1, unless
// an event has several tokens, or steps without a graph make tokens, too.
func (s *Server) stepsPerEvent() float64 {
	var all []weighted
	for i := range s.Requests {
		if r := &s.Requests[i]; r.Split && r.Events >= fewEvents && r.TokenSteps > 0 && r.Refused == 0 {
			all = append(all, weighted{int64(r.TokenSteps) * 1e6 / int64(r.Events-1), r.Weight})
		}
	}
	if len(all) < fewServed {
		return 0
	}
	return float64(quantile(all, usualShare)) / 1e6
}

// preemptions are the times between two reads of a server's metrics in which it preempted requests.
type preemptions struct {
	preemptions float64
	usage       float64 // highest share of the KV cache in use, 0: unknown
	times       [][2]int64
}

func (s *Server) preemptions() (p preemptions) {
	for i := range s.Reads {
		x := &s.Reads[i]
		if x.Preemptions == nil || *x.Preemptions <= 0 || x.Since.IsZero() {
			continue
		}
		p.preemptions += *x.Preemptions
		p.times = append(p.times, [2]int64{x.Since.UnixNano(), x.Time.UnixNano()})
		if x.KVCache != nil {
			p.usage = max(p.usage, *x.KVCache)
		}
	}
	return p
}

// contains reports whether some of the times overlap an interval.
func (p *preemptions) contains(from, to int64) bool {
	for _, t := range p.times {
		if from <= t[1] && to >= t[0] {
			return true
		}
	}
	return false
}

func (p *preemptions) text(requests int) string {
	used := "was full"
	if p.usage > 0 {
		used = fmt.Sprintf("was up to %.0f %% full at a read of the metrics", 100*p.usage)
	}
	return fmt.Sprintf("KV cache, which %s: %.0f preemptions, %d requests without tokens meanwhile", used, p.preemptions, requests)
}

// recomputed has the ends of the steps that computed no request's first prompt, while the server
// preempted requests: those of requests that had lost their cache, and a few others. They are in order.
// Of many short steps, some are missing.
type recomputed []int64

func (s *Server) computedAgain(steps []step, in *preemptions) (ends recomputed) {
	times := s.times()
	for i := range steps {
		if p := &steps[i]; p.marks&(ledger.MarkGraph|ledger.MarkCapture) == 0 && p.launches > 0 && !times.mayBePrompt(p) && in.contains(p.to(), p.to()) {
			ends = append(ends, p.to())
		}
	}
	slices.Sort(ends)
	return ends
}

// around returns the part of an interval in which a request can have stood still for ns: until a step
// in it computed its prompt again, or until any did if none is known.
func (e recomputed) around(from, to, ns int64) (begin, end int64) {
	after := func(at int64) int { return sort.Search(len(e), func(i int) bool { return e[i] > at }) }
	inside := e[after(from):after(to)]
	if len(inside) == 0 {
		inside = e
	}
	if len(inside) == 0 {
		return from, to
	}
	return max(from, inside[0]-ns), min(to, inside[len(inside)-1])
}
