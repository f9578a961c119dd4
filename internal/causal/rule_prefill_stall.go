package causal

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"ingero/internal/govern"
	"ingero/internal/ledger"
	"ingero/internal/tick"
)

const (
	longPrompt    = 4          // a step for prompts is long from this many usual steps for tokens on
	fewTokenSteps = 20         // fewer steps for tokens do not show what is usual
	sameStep      = int64(2e6) // ns: maximum difference of two times of the end of a step
)

var prefillStall = Rule{
	Name: "prefill-stall", Rests: govern.EachLaunch, Needs: NeedCalls, Share: 0.05,
	Doc:  "While an inference server computed long prompts, running requests got no tokens.",
	Find: eachServer((*Window).stalledByPrompts),
}

// stalledByPrompts adds up the long steps for prompts during which another request was between two
// tokens. A usual step for tokens is no loss.
func (w *Window) stalledByPrompts(s *Server, steps []step) (x Finding, ok bool) {
	token := usualToken(steps)
	if token == 0 {
		return x, false
	}
	clients, times := promptClients{}, s.times()
	warm := times.warmUps(steps)
	stalled := 0.0 // sum over the requests, ns
	for i := range steps {
		p := &steps[i]
		from, took := p.to()-p.busy(), min(w.e.alone(p), p.work())
		if p.marks&(ledger.MarkGraph|ledger.MarkCapture) != 0 || warm[p.to()] || times.eager(p) || took < longPrompt*token {
			continue
		}
		running := s.running(from, p.to())
		if running == 0 {
			continue
		}
		lost := float64(took-token) * p.weight
		stalled += lost * running
		clients.add(s, p.to(), lost)
		x.span(from, p.to(), p.weight)
		x.Lost += int64(lost)
	}
	if x.Slow == 0 {
		return x, false
	}
	x.Baseline = "a usual step for tokens takes " + span(token)
	x.Culprits = clients.culprits(x.Lost)
	x.Timeline = []tick.Moment{moment(x.From, "CUDA", "first of %d long steps for prompts; running requests waited %s in all", x.Slow, span(int64(stalled)))}
	return x, true
}

// running returns how many requests had tokens before an interval, and after it.
func (s *Server) running(from, to int64) (n float64) {
	for i := range s.Requests {
		if r := &s.Requests[i]; r.First() <= from+sameStep && r.EndTime() >= to {
			n += r.Weight
		}
	}
	return n
}

// usualToken returns the median time of an engine's steps for tokens, ns; 0: unknown. These steps
// launch a graph.
func usualToken(steps []step) int64 {
	var all []weighted
	for i := range steps {
		if x := &steps[i]; x.marks&ledger.MarkGraph != 0 {
			all = append(all, weighted{x.work(), x.weight})
		}
	}
	if len(all) < fewTokenSteps {
		return 0
	}
	return quantile(all, 0.5)
}

// promptClients are the clients whose prompts were computed in long steps, by address.
type promptClients map[string]*promptClient

type promptClient struct {
	name  string
	lost  float64
	bytes uint64 // of its longest request
}

// add charges the clients of the prompts in a step that ended at a time.
func (c promptClients) add(s *Server, end int64, lost float64) {
	for i := range s.Requests {
		r := &s.Requests[i]
		if d := r.First() - int64(r.ToFirst.Deliver) - end; !r.Split || d < -sameStep || d > sameStep {
			continue
		}
		name := r.Peer.Addr().String()
		if c[name] == nil {
			c[name] = &promptClient{name: name}
		}
		c[name].lost += lost
		c[name].bytes = max(c[name].bytes, r.Received)
	}
}

// culprits returns the clients, the one with the largest share first.
func (c promptClients) culprits(lost int64) (out []tick.Culprit) {
	for _, x := range slices.SortedFunc(maps.Values(c), func(a, b *promptClient) int {
		return cmp.Or(cmp.Compare(b.lost, a.lost), cmp.Compare(a.name, b.name))
	}) {
		if len(out) < maxCulprits {
			out = append(out, tick.Culprit{What: fmt.Sprintf("requests from %s with prompts of up to %s", x.name, bytesText(x.bytes)), Lost: time.Duration(min(x.lost, float64(lost)))})
		}
	}
	if len(out) == 0 {
		out = []tick.Culprit{{What: "long prompts", Lost: time.Duration(lost)}}
	}
	return out
}
