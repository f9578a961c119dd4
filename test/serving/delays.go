package serving

import (
	"cmp"
	"slices"
	"strings"
)

// Names in the IDs of requests, which lab/client.py gives.
const (
	longPrompts     = "cmpl-long-" // the other client's prompts
	firstConnection = "cmpl-c0-"   // the connection that reads slowly
)

// nearest is the number of steps whose median time is what a step usually takes.
const nearest = 9

// Span is a time range. Times are CLOCK_MONOTONIC in ns.
type Span struct{ From, To int64 }

func (s Span) contains(at int64) bool { return s.From <= at && at < s.To }

// end returns when a step ended.
func (s *Step) end() int64 { return s.At + int64(s.MS*1e6) }

// beyond returns the end of a step that lasts ms longer than usual. It may be empty.
func (s *Step) beyond(usualMS float64) Span { return Span{s.At + int64(usualMS*1e6), s.end()} }

// delays lists, by the name of a fault, when it delayed requests.
var delays = map[string]func(t *Truth, during Span) []Span{
	"prefill":     (*Truth).stalled,
	"kv":          (*Truth).preempted,
	"scheduler":   (*Truth).scheduled,
	"tokenizer":   (*Truth).withoutWork,
	"graph-miss":  (*Truth).withoutGraph,
	"lora":        (*Truth).swapped,
	"cold-start":  (*Truth).captured,
	"slow-client": (*Truth).unread,
}

// Delays returns when a fault delayed requests, beyond what is usual in the rest of the run: ordered
// ranges that do not overlap. during is when the fault was on.
func (t *Truth) Delays(fault string, during Span) []Span { return union(delays[fault](t, during)) }

// stalled returns the time of steps for the other client's prompts while other requests were between
// two tokens, without the time of a usual step for tokens.
func (t *Truth) stalled(Span) (out []Span) {
	long, first, last := map[int]bool{}, map[int]int{}, map[int]int{}
	for i := range t.Requests {
		long[t.Requests[i].Number] = strings.HasPrefix(t.Requests[i].ID, longPrompts)
	}
	for i := range t.Steps {
		s := &t.Steps[i]
		for _, n := range s.Requests {
			if _, seen := first[n]; !seen {
				first[n] = i
			}
			last[n] = i
		}
	}
	usual := t.tokenStep()
	for i := range t.Steps {
		s := &t.Steps[i]
		if s.Phase != "prefill" || !slices.ContainsFunc(s.Requests, func(n int) bool { return long[n] }) {
			continue
		}
		for n := range first {
			if !long[n] && first[n] < i && i < last[n] {
				out = append(out, s.beyond(usual))
				break
			}
		}
	}
	return out
}

// preempted returns the time in which a request had lost its cache: from its last step before that
// until it was computed again, without the time of a usual step for tokens.
func (t *Truth) preempted(Span) (out []Span) {
	usual := int64(t.tokenStep() * 1e6)
	decoded, last := map[int]bool{}, map[int]int64{}
	for i := range t.Requests {
		decoded[t.Requests[i].Number] = t.Requests[i].Preempted > 0
	}
	for i := range t.Steps {
		s := &t.Steps[i]
		for _, n := range s.Requests {
			if s.Phase == "decode" {
				decoded[n] = true
			} else if decoded[n] && last[n] != 0 {
				out = append(out, Span{last[n] + usual, s.end()})
			}
			last[n] = s.end()
		}
	}
	return out
}

// tokenStep returns the median time of steps for tokens in ms.
func (t *Truth) tokenStep() float64 {
	var all []float64
	for i := range t.Steps {
		if s := &t.Steps[i]; s.Phase == "decode" {
			all = append(all, s.MS)
		}
	}
	return median(all)
}

// scheduled returns the time until steps had chosen their requests, beyond the usual.
func (t *Truth) scheduled(during Span) (out []Span) {
	var others []float64
	for i := range t.Steps {
		if s := &t.Steps[i]; !during.contains(s.At) {
			others = append(others, s.ScheduleMS)
		}
	}
	usual := median(others)
	for i := range t.Steps {
		if s := &t.Steps[i]; during.contains(s.At) {
			out = append(out, Span{s.At + int64(usual*1e6), s.At + int64(s.ScheduleMS*1e6)})
		}
	}
	return out
}

// withoutWork returns the time in which the engine had no request, and one was on its way to it for
// longer than usual.
func (t *Truth) withoutWork(during Span) (out []Span) {
	var others []float64
	var busy []Span
	for i := range t.Requests {
		r := &t.Requests[i]
		if r.Queued == 0 {
			continue // the client went away
		}
		busy = append(busy, Span{r.Queued, r.Last})
		if !during.contains(r.Received) {
			others = append(others, float64(r.Queued-r.Received))
		}
	}
	usual, busy := int64(median(others)), union(busy)
	for i := range t.Requests {
		if r := &t.Requests[i]; r.Queued != 0 && during.contains(r.Received) {
			out = append(out, without(Span{r.Received + usual, r.Queued}, busy)...)
		}
	}
	return out
}

// withoutGraph returns the time of steps for tokens without a graph, beyond that with one.
func (t *Truth) withoutGraph(during Span) (out []Span) {
	usual := t.usual(during)
	for i := range t.Steps {
		if s := &t.Steps[i]; s.Phase == "decode" && !s.Graph && during.contains(s.At) {
			out = append(out, s.beyond(usual(s)))
		}
	}
	return out
}

// swapped returns the time of steps that copy adapters, beyond that of steps that copy none.
func (t *Truth) swapped(during Span) (out []Span) {
	usual := t.usual(during)
	for i := range t.Steps {
		if s := &t.Steps[i]; s.Swaps > 0 {
			out = append(out, s.beyond(usual(s)))
		}
	}
	return out
}

// captured returns the time of captures since the first step: those of the start are before it, and all others
// are of the fault. A size that is needed only after the fault is captured then.
func (t *Truth) captured(Span) (out []Span) {
	for _, c := range t.Captures {
		if len(t.Steps) > 0 && c.At >= t.Steps[0].At {
			out = append(out, Span{c.At, c.At + int64(c.MS*1e6)})
		}
	}
	return out
}

// unread returns the time from the last token of the slow connection's requests in the engine until
// the server could send it, beyond the usual.
func (t *Truth) unread(during Span) (out []Span) {
	var others []float64
	for i := range t.Requests {
		if r := &t.Requests[i]; r.answered() && !strings.HasPrefix(r.ID, firstConnection) {
			others = append(others, float64(r.lastSent()-r.Last))
		}
	}
	usual := int64(median(others))
	for i := range t.Requests {
		if r := &t.Requests[i]; r.answered() && strings.HasPrefix(r.ID, firstConnection) && r.Received < during.To && r.lastSent() > during.From {
			out = append(out, Span{r.Last + usual, r.lastSent()})
		}
	}
	return out
}

func (r *Request) answered() bool { return r.Last != 0 && len(r.Sent) > 0 }

// lastSent returns when the send of the last token began.
func (r *Request) lastSent() int64 { return r.Sent[len(r.Sent)-1] }

// usual returns a function for the time in ms that a step usually takes: the median of the steps
// without the fault of the same phase that have the nearest numbers of tokens. Without such steps it
// is the step's own time.
func (t *Truth) usual(during Span) func(*Step) float64 {
	type work struct {
		phase  string
		tokens int
	}
	known := map[work]float64{}
	return func(s *Step) float64 {
		w := work{s.Phase, s.Tokens}
		if ms, ok := known[w]; ok {
			return ms
		}
		var others []*Step
		for i := range t.Steps {
			if x := &t.Steps[i]; x.Phase == s.Phase && !during.contains(x.At) {
				others = append(others, x)
			}
		}
		far := func(x *Step) int { return max(x.Tokens-s.Tokens, s.Tokens-x.Tokens) }
		slices.SortStableFunc(others, func(a, b *Step) int { return cmp.Compare(far(a), far(b)) })
		n := min(nearest, len(others))
		for n > 0 && n < len(others) && far(others[n]) == far(others[n-1]) {
			n++
		}
		if n == 0 {
			return s.MS
		}
		var took []float64
		for _, x := range others[:n] {
			took = append(took, x.MS)
		}
		known[w] = median(took)
		return known[w]
	}
}

// median returns the median, the upper of two middle values; 0 of none.
func median(all []float64) float64 {
	if len(all) == 0 {
		return 0
	}
	return slices.Sorted(slices.Values(all))[len(all)/2]
}

// union returns ordered ranges that do not overlap, without empty ones.
func union(all []Span) (out []Span) {
	all = slices.DeleteFunc(slices.Clone(all), func(s Span) bool { return s.To <= s.From })
	slices.SortFunc(all, func(a, b Span) int { return cmp.Compare(a.From, b.From) })
	for _, s := range all {
		if n := len(out); n > 0 && s.From <= out[n-1].To {
			out[n-1].To = max(out[n-1].To, s.To)
		} else {
			out = append(out, s)
		}
	}
	return out
}

// without returns the parts of a range outside of others, which are ordered and do not overlap.
func without(s Span, others []Span) (out []Span) {
	for _, o := range others {
		if o.To <= s.From || o.From >= s.To {
			continue
		}
		out = append(out, Span{s.From, o.From})
		s.From = o.To
	}
	return append(out, s)
}
