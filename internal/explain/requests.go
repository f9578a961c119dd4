package explain

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"ingero/internal/query"
	"ingero/internal/stats"
	"ingero/internal/tick"
	"ingero/internal/where"
	"ingero/internal/wire"
)

const (
	// mostServers bounds the servers whose requests are summed up.
	mostServers = 256
	// mostSlow is the number of slow requests that are kept for each server.
	mostSlow = 5
	// slowReader is from how many unacknowledged bytes on the client reads slowly: more than a
	// stream of tokens has on its way.
	slowReader = 1 << 20
)

// Requests sums up the requests to servers. The zero value is empty.
type Requests struct {
	Objective Objective // the zero value: none
	Engines   Engines
	servers   map[serverKey]*serverSums
}

type serverKey struct {
	pid  uint32
	port uint16
}

type serverSums struct {
	comm                              string
	engine                            *tick.Engine
	requests, others, failed, refused uint64
	unanswered, slowReaders           uint64
	first, unread, between, whole     stats.Sketch
	slowest                           []tick.Request // by time to the first byte, the longest first
	waits                             waits
}

// Add adds a tick's requests, and the steps of the servers' engines.
func (r *Requests) Add(t *tick.Tick) {
	r.Engines.Add(t)
	for i := range t.Requests {
		x := &t.Requests[i]
		if s := r.server(x, t); s != nil && s.add(x) && r.Objective.missed(x) {
			s.waits.add(x, r.Objective.Of)
		}
	}
}

// AddRecorded adds the requests of a recording that a filter selects, and the steps of engines. The
// error is [query.ErrNoCalls] if the requests have been deleted.
func (r *Requests) AddRecorded(ctx context.Context, from *query.Reader, s *query.Session, f query.Filter, processes []tick.Process) error {
	steps, err := from.EngineSteps(ctx, f)
	if err != nil {
		return err
	}
	r.Engines.Add(&tick.Tick{EngineSteps: steps, Processes: processes})
	_, err = from.Requests(ctx, s, f, time.Time{}, func(_ time.Time, list []tick.Request) bool {
		r.Add(&tick.Tick{Requests: list, Processes: processes})
		return true
	})
	return err
}

// server returns the sums of a request's server, nil if there are too many.
func (r *Requests) server(x *tick.Request, t *tick.Tick) *serverSums {
	k := serverKey{x.PID, x.Port}
	if s := r.servers[k]; s != nil || len(r.servers) == mostServers {
		return s
	}
	if r.servers == nil {
		r.servers = map[serverKey]*serverSums{}
	}
	s := &serverSums{}
	r.servers[k] = s
	all := append(slices.Clone(t.Processes), t.Others...)
	if at := slices.IndexFunc(all, func(p tick.Process) bool { return p.PID == x.PID }); at >= 0 {
		s.comm = clean(all[at].Comm)
	}
	if e, known := where.Engines(all)[x.PID]; known {
		s.engine = new(e.Map(clean))
	}
	return s
}

// add adds a request, and reports whether its times count.
func (s *serverSums) add(x *tick.Request) bool {
	if !x.Post {
		s.others++
		return false
	}
	s.requests++
	if x.Refused > 0 || x.Unread >= slowReader {
		s.slowReaders++
	}
	s.unread.Add(int64(max(x.Read, 0)), 1)
	first, answered := x.FirstByte()
	switch {
	case !answered:
		s.unanswered++
		return false
	case x.Status >= 500:
		s.failed++
		return false
	case x.Status >= 400:
		s.refused++
		return false
	}
	s.first.Add(int64(first), 1)
	s.whole.Add(int64(x.Last), 1)
	if between, ok := x.Between(); ok {
		s.between.Add(int64(between), 1)
	}
	slower := func(a, b tick.Request) int {
		fa, _ := a.FirstByte()
		fb, _ := b.FirstByte()
		return cmp.Or(cmp.Compare(fb, fa), cmp.Compare(a.Arrived, b.Arrived))
	}
	at, _ := slices.BinarySearchFunc(s.slowest, *x, slower)
	if at < mostSlow {
		s.slowest = slices.Insert(s.slowest, at, *x)
		s.slowest = s.slowest[:min(len(s.slowest), mostSlow)]
	}
	return true
}

// List returns the servers by PID and port.
func (r *Requests) List() (out []wire.Server) {
	for _, k := range slices.SortedFunc(maps.Keys(r.servers), func(a, b serverKey) int {
		return cmp.Or(cmp.Compare(a.pid, b.pid), cmp.Compare(a.port, b.port))
	}) {
		s := r.servers[k]
		x := wire.Server{PID: k.pid, Comm: s.comm, Engine: s.engine, Port: k.port, Requests: s.requests, Others: s.others, Failed: s.failed, Refused: s.refused,
			Unanswered: s.unanswered, SlowReader: s.slowReaders, FirstByte: durationsOf(&s.first), Unread: durationsOf(&s.unread),
			Between: durationsOf(&s.between), Whole: durationsOf(&s.whole), Slowest: []wire.Request{}}
		for i := range s.slowest {
			x.Slowest = append(x.Slowest, requestOf(&s.slowest[i]))
		}
		x.Waits = s.waits.wire(r.Objective)
		out = append(out, x)
	}
	return out
}

func durationsOf(s *stats.Sketch) (d wire.Durations) {
	if d.Count = s.Count(); d.Count == 0 {
		return d
	}
	d.P50NS, d.P95NS, d.P99NS, d.MaxNS = new(s.Quantile(0.5)), new(s.Quantile(0.95)), new(s.Quantile(0.99)), new(s.Max())
	return d
}

func requestOf(x *tick.Request) wire.Request {
	known := func(d time.Duration) *int64 {
		if d < 0 {
			return nil
		}
		return new(int64(d))
	}
	j := wire.Request{PID: x.PID, Port: x.Port, Peer: x.Peer.String(), Arrived: time.Unix(0, x.Arrived).UTC(),
		ReadNS: known(x.Read), WholeNS: known(x.Whole), HeadNS: known(x.Head), FirstNS: known(x.First), LastNS: known(x.Last), GapNS: int64(x.Gap),
		Events: x.Events, Received: x.Received, Sent: x.Sent, SendsRefused: x.Refused, UnreadBytes: x.Unread, RoundTripNS: int64(x.RoundTrip),
		Status: x.Status, Post: x.Post, End: x.End.String()}
	if x.Split {
		j.ToFirst, j.After = requestTimeOf(&x.ToFirst), requestTimeOf(&x.After)
	}
	return j
}

// requests writes the requests to servers, and the steps of the servers' engines.
func (w *writer) requests(in *Input, r *report) {
	for i := range r.Servers {
		w.line("")
		w.server(&r.Servers[i])
	}
	if in.Requests != nil {
		w.engines(in.Requests.Engines.grouped())
	}
}

func (w *writer) server(s *wire.Server) {
	title := "Requests to " + processName(s.Comm, s.PID)
	if s.Engine != nil {
		e := *s.Engine
		e.Port = tick.Numbered(uint32(s.Port)) // the command line may not have it
		title += ", " + where.EngineText(&e)
	} else {
		title += fmt.Sprintf(" on port %d", s.Port)
	}
	facts := []string{plural(s.Requests, "request")}
	for _, x := range []struct {
		n    uint64
		text string
	}{{s.Failed, "failed (status 500 and more)"}, {s.Refused, "refused (status 400 to 499)"}, {s.Unanswered, "without a response"},
		{s.SlowReader, "whose client read slowly"}, {s.Others, "more without a body"}} {
		if x.n > 0 {
			facts = append(facts, Count(x.n)+" "+x.text)
		}
	}
	w.text(title+": "+joined(", ", facts...)+".", "")
	rows := []struct {
		name string
		d    *wire.Durations
	}{{"until the server read it", &s.Unread}, {"to the first byte of the body", &s.FirstByte}, {"between two events", &s.Between}, {"to the last byte", &s.Whole}}
	const name = 34
	w.line("  " + alignLeft("", name) + alignRight("p50", 10) + alignRight("p95", 10) + alignRight("p99", 10) + alignRight("max", 10))
	for _, row := range rows {
		if row.d.Count > 0 {
			line := "  " + alignLeft(row.name, name)
			for _, ns := range []*int64{row.d.P50NS, row.d.P95NS, row.d.P99NS, row.d.MaxNS} {
				line += alignRight(short(*ns), 10)
			}
			w.line(line)
		}
	}
	if len(s.Slowest) > 0 {
		w.text("  Slowest: "+w.slow(&s.Slowest[0]), "  ")
	}
	if s.Waits != nil {
		w.waits(s.Waits)
	}
}

// slow describes a slow request.
func (w *writer) slow(x *wire.Request) string {
	first := cmp.Or(x.FirstNS, x.HeadNS)
	text := fmt.Sprintf("%s from %s, %s to the first byte", x.Arrived.In(w.loc).Format("15:04:05.000"), x.Peer, Duration(*first))
	if x.ReadNS != nil && *x.ReadNS > *first/20 {
		text += ", of which " + Duration(*x.ReadNS) + " until the server read it"
	}
	if x.Events > 1 && x.LastNS != nil {
		text += fmt.Sprintf("; %s in %s", plural(uint64(x.Events), "event"), Duration(*x.LastNS-*first))
	}
	return text + "."
}
