package serve

import (
	"cmp"

	"ingero/internal/tick"
)

// lead is the thread that computes a server's requests.
type lead struct {
	threadKey
	*list
	several bool  // others of its process may compute some of them, too
	newest  int64 // Unix ns: end of the last step of any of the server's threads
}

// group returns what a thread belongs to: the first process of its server, or its own process if the
// server has several engines.
func (s *Splitter) group(k threadKey) uint32 {
	if root := s.root[k.pid]; !s.shared[root] {
		return root
	}
	return k.pid
}

// lead finds the thread that computes each server's requests: of its processes' threads, the one with
// the most steps that launched something. With tensor parallelism, all do the same at the same time. A
// thread of a process that has ended is it only until another one launches something.
func (s *Splitter) lead() {
	clear(s.leads)
	for k, l := range s.threads {
		l.exit = s.exits[k.pid]
		x := s.leads[s.group(k)]
		x.newest = max(x.newest, l.last())
		s.leads[s.group(k)] = x
	}
	for k, l := range s.threads {
		if x := s.leads[s.group(k)]; l.last() >= x.newest-ended && l.ahead(k, &x) {
			x.threadKey, x.list = k, l
			s.leads[s.group(k)] = x
		}
	}
	for k, l := range s.threads {
		of := s.group(k)
		x := s.leads[of]
		if s.pools[of] && k.pid == x.pid && k != x.threadKey && l.last() >= x.newest-ended && l.works > 0 && 4*l.works >= x.works {
			x.several = true
			s.leads[of] = x
		}
	}
}

// live reports whether a thread launched something, and its process has not ended.
func (l *list) live() bool { return l.works > 0 && l.exit == 0 }

// ahead reports whether a thread is live and another one is not, or else whether it has more steps that
// launched something, or as many and more steps.
func (l *list) ahead(k threadKey, than *lead) bool {
	if than.list != nil && l.live() != than.live() {
		return l.live()
	}
	return than.list == nil || cmp.Or(cmp.Compare(l.works, than.works), cmp.Compare(len(l.steps), len(than.steps)), cmp.Compare(than.pid, k.pid), cmp.Compare(than.tid, k.tid)) > 0
}

// engine returns the thread that computed a request, and its steps. Without one, or if it may be any of
// several, ok is false. Processes for the same model are ranks of one engine, which all compute each request.
func (s *Splitter) engine(x *tick.Request) (e lead, ok bool) {
	root := s.root[x.PID]
	if e = s.leads[root]; root == 0 || s.shared[root] || e.several || e.list == nil {
		return e, false
	}
	if e.began() > x.Arrived && !s.pools[root] {
		e = s.former(root, x, e)
	}
	for k, l := range s.threads {
		if k.pid == e.pid || s.root[k.pid] != root || l.works == 0 || l.exit <= x.Arrived {
			continue
		}
		if rank := l.exit >= x.EndTime() && s.models[k.pid] == s.models[e.pid]; !rank {
			return e, false
		}
	}
	return e, true
}

// former returns the thread of a server's former engine if that lived until a request ended, else the
// present one.
func (s *Splitter) former(root uint32, x *tick.Request, present lead) lead {
	var e lead
	for k, l := range s.threads {
		if s.root[k.pid] == root && l.works > 0 && l.exit >= x.EndTime() && l.ahead(k, &e) {
			e.threadKey, e.list = k, l
		}
	}
	if e.list == nil {
		return present
	}
	return e
}
