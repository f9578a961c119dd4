package causal

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"ingero/internal/govern"
	"ingero/internal/tick"
)

const (
	muchUnread = 1 << 20    // bytes that a client has not acknowledged: it reads slowly
	leastLate  = int64(5e6) // ns: a response that ends less after its last token is not late
)

// slowClient is never HIGH: the engine computes on, and only the slow client's own responses are late.
// Who looks at the time of whole requests wants to know that, though, so it is reported.
var slowClient = Rule{
	Name: "slow-client", Sees: govern.GraphLaunches, Needs: NeedRequests | NeedCalls, Share: 0.01,
	Doc:  "A client read the responses of an inference server more slowly than the server sent them.",
	Find: eachServer((*Window).unread),
}

// unread adds up the time between the last token of a response and its last byte, for clients that
// left no room in the socket's buffer.
func (w *Window) unread(s *Server, _ []step) (x Finding, ok bool) {
	perEvent := s.stepsPerEvent()
	var late []standing
	readers := map[string]*reader{}
	for i := range s.Requests {
		r := &s.Requests[i]
		if !r.Split || r.Refused == 0 && r.Unread < muchUnread {
			continue
		}
		ns := r.late(perEvent)
		if ns < leastLate {
			continue
		}
		from := r.EndTime() - ns
		late = append(late, standing{from, r.EndTime(), ns, r.Weight})
		x.span(from, r.EndTime(), r.Weight)
		name := r.Peer.Addr().String()
		if readers[name] == nil {
			readers[name] = &reader{name: name}
		}
		readers[name].add(r, late[len(late)-1])
	}
	u := unionOf(late)
	all := w.known(w.e.series[s.Engine].pid)
	x.Lost, x.Window = int64(u.lost), all
	if x.Lost < int64(leastLost) || u.lost < Rules[w.running].Share*float64(all) {
		return x, false
	}
	x.Severity = min(severity(u.lost, float64(all)), tick.Medium)
	x.Baseline = "a response ends with its last token"
	for _, c := range slices.SortedFunc(maps.Values(readers), func(a, b *reader) int {
		return cmp.Or(cmp.Compare(unionOf(b.late).lost, unionOf(a.late).lost), cmp.Compare(a.name, b.name))
	}) {
		if len(x.Culprits) < maxCulprits {
			x.Culprits = append(x.Culprits, tick.Culprit{What: c.text(), Lost: time.Duration(unionOf(c.late).lost)})
		}
	}
	x.Timeline = []tick.Moment{moment(x.From, "HOST", "first response that the client read slowly; %d ended %s late in all", x.Slow, span(int64(u.sum)))}
	return x, true
}

// late returns how long after its last token a response ended, ns. The engine works on it for its
// share of the steps for tokens.
func (r *Request) late(perEvent float64) int64 {
	share := 1.0
	if perEvent > 0 && r.TokenSteps > 0 {
		share = min(perEvent*float64(max(r.Events, 1)-1)/float64(r.TokenSteps), 1)
	}
	worked := r.After.Prompts + r.After.Own + r.After.Tokens + r.After.Steps
	return int64(r.Last-r.Request.First) - int64(share*float64(worked))
}

// reader is a client that reads slowly.
type reader struct {
	name      string
	late      []standing
	responses float64
	roundTrip time.Duration // longest; 0: unknown
}

func (c *reader) add(r *Request, late standing) {
	c.late = append(c.late, late)
	c.responses += r.Weight
	c.roundTrip = max(c.roundTrip, r.RoundTrip)
}

func (c *reader) text() string {
	out := fmt.Sprintf("client %s: %.0f responses", c.name, c.responses)
	if c.roundTrip > 0 {
		out += ", round trip of up to " + span(int64(c.roundTrip))
	}
	return out
}
