package causal

import (
	"cmp"
	"maps"
	"slices"

	"ingero/internal/tick"
)

const (
	maxServers  = 16
	maxRequests = 64      // of a server and tick: the others are represented by these
	maxOpen     = 1 << 14 // of a server
)

// Server has the facts of a server whose requests are measured, from the ticks of the last minute.
type Server struct {
	PID      uint32           // of the process that reads the requests: the first, if several do for one engine
	Engine   uint32           // TID of the thread that computes them; 0: unknown
	Requests []Request        // answered, by time of their tick
	Reads    []tick.Inference // of the metrics of one of the processes, oldest first, without failed ones

	// When its engine computed prompts, of all answered requests and not only of a sample: the ends of
	// such steps, and times until the first byte of requests that the engine's steps do not divide.
	// For want of records of launches, it is unknown which step computed such a request. Both are in
	// order, without overlaps, and kept as long as the engine's steps.
	prompts   []int64 // Unix ns
	undivided []timeSpan

	// When threads had requests to answer, of all answered requests: by start, at most maxOpen. Those of
	// one thread do not overlap.
	open []openTime
}

// openTime is a period in which a thread had requests to answer.
type openTime struct {
	pid, tid uint32
	timeSpan
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
	return slices.Compact(slices.SortedFunc(maps.Values(w.e.servers), func(a, b *Server) int {
		return cmp.Or(cmp.Compare(a.PID, b.PID), cmp.Compare(a.Engine, b.Engine))
	}))
}

// noteRequests adds a tick's requests, and the reads of their servers' metrics.
func (e *Engine) noteRequests(t *tick.Tick) {
	add := map[*Server][]Request{}
	for i := range t.Requests {
		if x := &t.Requests[i]; answered(x) {
			e.serve(x.PID, x.EngineTID)
		}
	}
	for i := range t.Requests {
		x := &t.Requests[i]
		if s := e.servers[x.PID]; s != nil && answered(x) {
			add[s] = append(add[s], Request{*x, 1})
		}
	}
	for s, list := range add {
		s.notePrompts(list)
		s.noteOpen(list)
		s.Requests = append(s.Requests, sampled(list)...)
	}
	for i := range t.Inference {
		x := &t.Inference[i]
		if s := e.readOf(x.PID, t); s != nil && x.Why == "" && (len(s.Reads) == 0 || s.Reads[0].PID == x.PID) {
			s.Reads = append(s.Reads, *x)
		}
	}
	old := t.Time.UnixNano() - windowSeconds*1e9
	oldStep := old - 2*windowSeconds*1e9 // see [Engine.forget]
	for pid, s := range e.servers {
		s.Requests = slices.DeleteFunc(s.Requests, func(x Request) bool { return x.EndTime() < old })
		s.prompts = slices.DeleteFunc(s.prompts, func(x int64) bool { return x < oldStep })
		s.undivided = slices.DeleteFunc(s.undivided, func(x timeSpan) bool { return x.to < oldStep })
		s.open = slices.DeleteFunc(s.open, func(x openTime) bool { return x.to < old })
		s.Reads = slices.DeleteFunc(s.Reads, func(x tick.Inference) bool { return x.Time.UnixNano() < old })
		if !slices.ContainsFunc(s.Requests, func(x Request) bool { return x.PID == pid }) {
			delete(e.servers, pid)
		}
	}
}

// readOf returns the server that a process's metrics are of, nil if there is none: its own, or that of
// the processes that it started to read the requests.
func (e *Engine) readOf(pid uint32, t *tick.Tick) *Server {
	if s := e.servers[pid]; s != nil {
		return s
	}
	for _, list := range [][]tick.Process{t.Processes, t.Others} {
		for i := range list {
			if s := e.servers[list[i].PID]; s != nil && list[i].PPID == pid {
				return s
			}
		}
	}
	return nil
}

// answered reports whether a request is one for an engine, and was answered.
func answered(x *tick.Request) bool { return x.Post && x.First >= 0 && x.Status < 400 }

// serve notes that a process reads requests, for this engine if it is not 0. Processes that do so for
// one engine, such as several API servers, are one server. A process too many is left out.
func (e *Engine) serve(pid, engine uint32) {
	s := e.servers[pid]
	if s == nil && len(e.servers) == maxServers || s != nil && (engine == 0 || engine == s.Engine) {
		return
	}
	for _, same := range e.servers {
		if engine != 0 && same.Engine == engine {
			if s != nil {
				same.take(s, pid)
			}
			e.servers[pid] = same
			return
		}
	}
	if s == nil {
		s = &Server{PID: pid}
		e.servers[pid] = s
	}
	s.Engine = cmp.Or(engine, s.Engine)
}

// notePrompts notes when the engine computed the prompts of requests.
func (s *Server) notePrompts(requests []Request) {
	for i := range requests {
		if r := &requests[i]; r.Split {
			s.prompts = append(s.prompts, r.prompted())
		} else {
			s.undivided = append(s.undivided, timeSpan{r.Arrived, r.First()})
		}
	}
	slices.Sort(s.prompts)
	s.prompts, s.undivided = slices.Compact(s.prompts), merged(s.undivided)
}

// noteOpen notes when the threads that read requests had requests to answer.
func (s *Server) noteOpen(requests []Request) {
	for i := range requests {
		r := &requests[i]
		s.open = append(s.open, openTime{r.PID, r.TID, timeSpan{r.Arrived, r.EndTime()}})
	}
	slices.SortFunc(s.open, func(a, b openTime) int {
		return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(a.to, b.to), cmp.Compare(a.tid, b.tid))
	})
	last := map[uint32]int{} // by TID
	all := s.open[:0]
	for _, x := range s.open {
		if i, ok := last[x.tid]; ok && x.from <= all[i].to {
			all[i].to = max(all[i].to, x.to)
			continue
		}
		last[x.tid] = len(all)
		all = append(all, x)
	}
	s.open = slices.Delete(all, 0, max(len(all)-maxOpen, 0))
}

// take takes a process's requests over from another server, and all prompts: whose they are is not kept.
func (s *Server) take(from *Server, pid uint32) {
	of := func(x Request) bool { return x.PID == pid }
	for i := range from.Requests {
		if of(from.Requests[i]) {
			s.Requests = append(s.Requests, from.Requests[i])
		}
	}
	from.Requests = slices.DeleteFunc(from.Requests, of)
	s.prompts, s.undivided = append(s.prompts, from.prompts...), append(s.undivided, from.undivided...)
	s.notePrompts(nil)
	s.open = append(s.open, from.open...)
	s.noteOpen(nil)
	slices.SortStableFunc(s.Requests, func(a, b Request) int { return cmp.Compare(a.EndTime(), b.EndTime()) })
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
				x.unknown += s.unknownLoss(&x)
				out = append(out, x)
			}
		}
		return out
	}
}

// span adds the time of requests that were delayed.
func (x *Finding) span(from, to int64, weight float64) {
	x.cover(from, to)
	x.Slow += int(weight + 0.5)
}

// cover extends the time of a finding, Unix ns.
func (x *Finding) cover(from, to int64) {
	if x.From == 0 || from < x.From {
		x.From = from
	}
	x.To = max(x.To, to)
}

// busy returns how long a step of an engine took without its wait for requests, ns.
func (r *record) busy() int64 { return r.length - min(r.awaited, r.length) }
