package causal

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"sort"
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
	Name: "prefill-stall", Sees: govern.GraphLaunches, Needs: NeedRequests | NeedCalls, Share: 0.05,
	Doc:     "While an inference server computed long prompts, running requests got no tokens.",
	Find:    eachServer((*Window).stalledByPrompts),
	Instead: []string{"gpu-slower"},
}

// stalledByPrompts adds up the long steps for prompts during which another request was between two
// tokens. A usual step for tokens is no loss.
func (w *Window) stalledByPrompts(s *Server, steps []step) (x Finding, ok bool) {
	token := usualToken(steps)
	if token == 0 {
		return x, false
	}
	clients, times := s.promptClients(), s.times()
	warm := times.warmUps(steps)
	stalled := 0.0 // sum over the requests, ns
	for i := range steps {
		p := &steps[i]
		from, took := p.to()-p.busy(), min(w.e.alone(p), p.work())
		if p.graphsUnknown || p.launches == 0 || p.marks&(ledger.MarkGraph|ledger.MarkCapture) != 0 || warm[p.to()] || times.eager(p) || took < longPrompt*token {
			continue
		}
		running := times.running(p)
		if running == 0 {
			continue
		}
		lost := float64(took-token) * p.weight
		stalled += lost * running
		clients.add(p.to(), lost)
		x.span(from, p.to(), p.weight)
		x.Lost += int64(lost)
		x.spread.add(from, p.to(), lost)
	}
	if x.Slow == 0 {
		return x, false
	}
	x.Baseline = "a usual step for tokens takes " + span(token)
	x.Culprits = clients.culprits(x.Lost)
	x.Timeline = []tick.Moment{moment(x.From, "CUDA", "first of %d long steps for prompts; running requests waited %s in all", x.Slow, span(int64(stalled)))}
	return x, true
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

// promptClients are the clients whose prompts were computed in long steps.
type promptClients struct {
	requests []promptEnd // by end
	byName   map[string]*promptClient
}

// promptEnd is when the prompt of a request was computed, Unix ns.
type promptEnd struct {
	at int64
	*Request
}

type promptClient struct {
	name  string
	lost  float64
	bytes uint64 // of its longest request
}

func (s *Server) promptClients() (c promptClients) {
	c.byName = map[string]*promptClient{}
	for i := range s.Requests {
		if r := &s.Requests[i]; r.Split {
			c.requests = append(c.requests, promptEnd{r.prompted(), r})
		}
	}
	slices.SortFunc(c.requests, func(a, b promptEnd) int { return cmp.Compare(a.at, b.at) })
	return c
}

// add charges the clients of the prompts in a step that ended at a time: each by its bytes, since a long
// prompt has made the step long.
func (c *promptClients) add(end int64, lost float64) {
	first := sort.Search(len(c.requests), func(i int) bool { return c.requests[i].at >= end-sameStep })
	last := sort.Search(len(c.requests), func(i int) bool { return c.requests[i].at > end+sameStep })
	size := func(r *promptEnd) float64 { return r.Weight * float64(max(r.Received, 1)) }
	all := 0.0
	for i := first; i < last; i++ {
		all += size(&c.requests[i])
	}
	for i := first; i < last; i++ {
		r := &c.requests[i]
		name := r.Peer.Addr().String()
		if c.byName[name] == nil {
			c.byName[name] = &promptClient{name: name}
		}
		c.byName[name].lost += lost * size(r) / all
		c.byName[name].bytes = max(c.byName[name].bytes, r.Received)
	}
}

// culprits returns the clients, the one with the largest share first.
func (c *promptClients) culprits(lost int64) (out []tick.Culprit) {
	for _, x := range slices.SortedFunc(maps.Values(c.byName), func(a, b *promptClient) int {
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
