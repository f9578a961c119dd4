package causal

import (
	"cmp"
	"maps"
	"slices"

	"ingero/internal/tick"
)

const (
	maxServers  = 16
	maxRequests = 64 // of a server and tick: the others are represented by these
)

// Server has the facts of a server whose requests are measured, from the ticks of the last minute.
type Server struct {
	PID      uint32           // of the process that reads the requests
	Engine   uint32           // TID of the thread that computes them; 0: unknown
	Requests []Request        // answered, by time of their tick
	Reads    []tick.Inference // of the server's metrics, oldest first, without failed ones
	seen     int64            // Unix ns: of the last request
}

// Request is an answered request with a body, and how many it represents.
type Request struct {
	tick.Request
	Weight float64
}

// First returns when the first byte of the body was sent, in Unix ns.
func (r *Request) First() int64 { return r.Arrived + int64(r.Request.First) }

// Servers returns the servers with requests in the last minute, by PID.
func (w *Window) Servers() []*Server {
	return slices.SortedFunc(maps.Values(w.e.servers), func(a, b *Server) int { return cmp.Compare(a.PID, b.PID) })
}

// noteRequests adds a tick's requests, and the reads of their servers' metrics.
func (e *Engine) noteRequests(t *tick.Tick) {
	now := t.Time.UnixNano()
	add := map[*Server][]Request{}
	for i := range t.Requests {
		x := &t.Requests[i]
		if !x.Post || x.First < 0 || x.Status >= 400 {
			continue
		}
		if s := e.server(x.PID); s != nil {
			add[s] = append(add[s], Request{*x, 1})
			s.seen, s.Engine = now, cmp.Or(x.EngineTID, s.Engine)
		}
	}
	for s, list := range add {
		s.Requests = append(s.Requests, sampled(list)...)
	}
	for i := range t.Inference {
		if s := e.servers[t.Inference[i].PID]; s != nil && t.Inference[i].Why == "" {
			s.Reads = append(s.Reads, t.Inference[i])
		}
	}
	old := now - windowSeconds*1e9
	for pid, s := range e.servers {
		s.Requests = slices.DeleteFunc(s.Requests, func(x Request) bool { return x.EndTime() < old })
		s.Reads = slices.DeleteFunc(s.Reads, func(x tick.Inference) bool { return x.Time.UnixNano() < old })
		if s.seen < old {
			delete(e.servers, pid)
		}
	}
}

// server returns a server, nil if there are too many.
func (e *Engine) server(pid uint32) *Server {
	s := e.servers[pid]
	if s == nil && len(e.servers) < maxServers {
		s = &Server{PID: pid}
		e.servers[pid] = s
	}
	return s
}

// sampled returns requests that represent all of a tick: evenly by time of arrival.
func sampled(all []Request) []Request {
	if len(all) <= maxRequests {
		return all
	}
	slices.SortStableFunc(all, func(a, b Request) int { return cmp.Compare(a.Arrived, b.Arrived) })
	out := make([]Request, maxRequests)
	for i := range out {
		out[i] = all[i*len(all)/maxRequests]
		out[i].Weight = float64(len(all)) / maxRequests
	}
	return out
}

// eachServer returns a Find that runs find for each server whose engine is known, with the engine's
// steps. The finding's process and thread are the engine's.
func eachServer(find func(w *Window, s *Server, steps []step) (x Finding, ok bool)) func(*Window) []Finding {
	return func(w *Window) (out []Finding) {
		for _, s := range w.Servers() {
			engine := w.e.series[s.Engine]
			if engine == nil {
				continue
			}
			if x, ok := find(w, s, w.stepsOf(s.Engine)); ok {
				x.PID, x.TID = engine.pid, engine.tid
				out = append(out, x)
			}
		}
		return out
	}
}

// span adds the time of requests that were delayed.
func (x *Finding) span(from, to int64, weight float64) {
	if x.Slow == 0 || from < x.From {
		x.From = from
	}
	x.To, x.Slow = max(x.To, to), x.Slow+int(weight+0.5)
}

// busy returns how long a step of an engine took without its wait for requests, ns.
func (r *record) busy() int64 { return r.length - min(r.awaited, r.length) }
