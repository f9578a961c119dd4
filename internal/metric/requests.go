package metric

import (
	"cmp"
	"maps"
	"slices"
	"strconv"

	"ingero/internal/stats"
	"ingero/internal/tick"
	"ingero/internal/where"
)

// lookAgain is the number of ticks between two looks at what the servers are: a server may set its
// title after its first request.
const lookAgain = 30

// requests sums up the requests to servers, also to those that have ended.
type requests struct {
	servers slots[serviceKey, service]
	engines map[uint32]tick.Engine // what each process is, as of the last look
	looked  uint64                 // sequence number of the tick of the last look
}

// serviceKey are the labels of servers.
type serviceKey struct{ engine, model, port string }

// service sums up the requests with a body to servers with the same labels. Durations and waits are of
// answered requests with a status below 400.
type service struct {
	statuses              map[string]uint64
	first, between, whole timing
	waits                 [len(intervals)]tick.RequestWaits
}

// intervals are the intervals of a request whose waits are known.
var intervals = [...]string{"to_first", "after"}

// timing is a distribution, with its copy for snapshots.
type timing struct {
	sketch stats.Sketch
	dist   *Distribution
}

// distribution returns the copy for a snapshot, nil if it is empty.
func (t *timing) distribution() *Distribution {
	if n := t.sketch.Count(); n > 0 && (t.dist == nil || t.dist.Count() != n) {
		t.dist = &Distribution{sketch: t.sketch.Clone()}
	}
	return t.dist
}

// requests adds a tick's requests and makes the points of all.
func (m *Meter) requests(t *tick.Tick) {
	c := &m.served
	for i := range t.Requests {
		if x := &t.Requests[i]; x.Post {
			m.service(t, x).add(x)
		}
	}
	for _, k := range slices.SortedFunc(maps.Keys(c.servers.states), func(a, b serviceKey) int {
		return cmp.Or(cmp.Compare(a.engine, b.engine), cmp.Compare(a.model, b.model), cmp.Compare(a.port, b.port))
	}) {
		s := c.servers.states[k]
		for _, status := range slices.Sorted(maps.Keys(s.statuses)) {
			m.set(Requests, float64(s.statuses[status]), status, k.engine, k.model, k.port)
		}
		for _, d := range []struct {
			id ID
			*timing
		}{{RequestFirstByte, &s.first}, {RequestBetween, &s.between}, {RequestDuration, &s.whole}} {
			if dist := d.distribution(); dist != nil {
				m.point(d.id, Point{Labels: []string{k.engine, k.model, k.port}, Dist: dist})
			}
		}
		for i, interval := range intervals {
			for part, d := range s.waits[i] {
				if d > 0 {
					m.set(RequestWait, d.Seconds(), interval, tick.RequestWaitNames[part], k.engine, k.model, k.port)
				}
			}
		}
	}
}

// service returns the sums of a request's server. Beyond the limit, servers are counted as other.
func (m *Meter) service(t *tick.Tick, x *tick.Request) *service {
	c := &m.served
	e := c.engine(t, x.PID)
	s, own := c.servers.use(serviceKey{text(e.Name), text(e.Model), strconv.Itoa(int(x.Port))}, m.time)
	if !own {
		m.over[Requests]++
	}
	return s
}

// engine returns what a process is of an inference server, as of the last look.
func (c *requests) engine(t *tick.Tick, pid uint32) tick.Engine {
	if _, known := c.engines[pid]; !known && c.looked != t.Seq || t.Seq-c.looked >= lookAgain {
		c.engines, c.looked = where.Engines(append(slices.Clone(t.Processes), t.Others...)), t.Seq
	}
	return c.engines[pid]
}

func (s *service) add(x *tick.Request) {
	first, answered := x.FirstByte()
	status := "unanswered"
	switch class := x.Status / 100; {
	case answered && class >= 1 && class <= 5:
		status = strconv.Itoa(int(class)) + "xx"
	case answered:
		status = Other
	}
	if s.statuses == nil {
		s.statuses = map[string]uint64{}
	}
	s.statuses[status]++
	if !answered || x.Status >= 400 {
		return
	}
	s.first.sketch.Add(int64(first), 1)
	s.whole.sketch.Add(int64(x.Last), 1)
	if between, ok := x.Between(); ok {
		s.between.sketch.Add(int64(between), 1)
	}
	toFirst, after := x.Waits()
	s.waits[0].Add(toFirst)
	s.waits[1].Add(after)
}
