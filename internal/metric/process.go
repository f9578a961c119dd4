package metric

import (
	"time"

	"ingero/internal/stats"
	"ingero/internal/tick"
)

// processes are the processes with series of their own.
type processes struct {
	byPID  map[uint32]*process
	others process             // all others combined
	rest   map[uint32]*process // the others that the tick lists
}

// process is the state of a process.
type process struct {
	pid     string
	name    string
	started time.Time
	last    time.Time // last time it was alive
	info    tick.Where
	labels  []string // name and pid, as in points

	sums         // of its series
	seen    sums // last sums of its account
	stepped bool
	steps   stats.Sketch
	dist    *Distribution
	loops   map[loopKey]*loopSteps // counted steps; see stepsOf
	turn    uint64                 // calls of stepsOf
	open    time.Duration
	state   *memory // nil: it has allocated nothing
}

// memory is the memory of a process.
type memory struct {
	gpu, host tick.Held
	growth    float64 // bytes per second
}

// sums are sums of a process, or of several.
type sums struct {
	spent    [tick.Places]tick.Times
	critical uint64
	ooms     uint64
}

// raise raises the sums of a process to the current ones. If the process has no series of its own, their
// growth adds to the sums of the others, and stays there.
func (p *processes) raise(pid uint32, now *sums) {
	if x := p.byPID[pid]; x != nil {
		more := x.seen.raise(now)
		x.add(&more)
	} else if x := p.rest[pid]; x != nil {
		more := x.seen.raise(now)
		p.others.add(&more)
	}
}

// raise raises the sums to the current ones, and returns by how much. A sum never falls.
func (s *sums) raise(now *sums) sums {
	more := sums{critical: now.critical - min(s.critical, now.critical), ooms: now.ooms - min(s.ooms, now.ooms)}
	for place := range s.spent {
		more.spent[place] = now.spent[place].Since(&s.spent[place])
	}
	s.add(&more)
	return more
}

func (s *sums) add(more *sums) {
	for place := range s.spent {
		s.spent[place].Add(&more.spent[place])
	}
	s.critical, s.ooms = s.critical+more.critical, s.ooms+more.ooms
}

// processes updates the list of processes, and forgets those that ended a while ago.
func (m *Meter) processes(t *tick.Tick) {
	p := &m.procs
	p.others.labels = []string{Other, "0"}
	p.others.name, p.others.pid = Other, "0"
	rest := p.rest
	p.rest = map[uint32]*process{}
	calls := map[uint32]bool{}
	for i := range t.Ops {
		if t.Ops[i].Sum.Calls > 0 {
			calls[t.Ops[i].PID] = true
		}
	}
	for pid, x := range p.byPID {
		if m.time.Sub(x.last) > linger {
			m.retire(pid)
		}
	}
	alive := 0
	for i := range t.Processes {
		x := &t.Processes[i]
		if x.Ended.IsZero() {
			alive++
		}
		if !calls[x.PID] {
			continue
		}
		m.process(x, rest[x.PID])
	}
	m.set(Processes, float64(alive))
}

// process updates a process that makes calls. other is its state in the last tick, if it had no series of
// its own.
func (m *Meter) process(x *tick.Process, other *process) {
	p := &m.procs
	was := p.byPID[x.PID]
	if was != nil && !was.started.Equal(x.Started) { // its pid was reused
		m.retire(x.PID)
		was = nil
	}
	if was == nil {
		if !x.Ended.IsZero() && m.time.Sub(x.Ended) > linger {
			return
		}
		if was = other; was == nil || !was.started.Equal(x.Started) {
			was = &process{pid: number(x.PID), started: x.Started}
		}
		if len(p.byPID) >= mostProcesses {
			p.rest[x.PID] = was
			m.over[ProcessInfo]++
			return
		}
		p.byPID[x.PID] = was
	}
	if name := text(x.Comm); name != was.name || was.labels == nil {
		was.name, was.labels = name, []string{name, was.pid}
	}
	was.last = m.time
	if !x.Ended.IsZero() {
		was.last = x.Ended
	}
	was.open, was.info = 0, x.Where
	w := &was.info
	m.set(ProcessInfo, 1, was.name, was.pid, text(w.Namespace), text(w.Pod), text(w.Container), text(w.Unit), text(w.Job), w.Rank.String())
}

// retire forgets a process and its series.
func (m *Meter) retire(pid uint32) {
	delete(m.procs.byPID, pid)
	m.ledger.retire(pid)
	m.chains.retire(pid)
}

// withLabels appends values to a process's labels.
func (p *process) withLabels(values ...string) []string {
	return append(p.labels[:2:2], values...)
}

// each calls f for the processes with series of their own and, if there are any, for the others
// combined.
func (p *processes) each(f func(*process)) {
	for _, x := range p.byPID {
		f(x)
	}
	if len(p.rest) > 0 || p.others.stepped {
		p.others.stepped = true
		f(&p.others)
	}
}

// rise raises a copy of a sum that is kept elsewhere: the copy never falls.
func rise(to *uint64, now uint64) { *to = max(*to, now) }
