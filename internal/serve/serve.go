package serve

import (
	"cmp"
	"slices"
	"sort"
	"time"

	"ingero/internal/govern"
	"ingero/internal/ledger"
	"ingero/internal/tick"
	"ingero/internal/where"
	"ingero/pkg/events"
)

const (
	// mostSteps bounds the steps that are kept of a thread: those of a minute or more.
	mostSteps = 1 << 15
	// mostThreads bounds the threads whose steps are kept.
	mostThreads = 64
	// lookAgain is the number of ticks between two looks for new processes of a server.
	lookAgain = 30
	// ended is for how long a thread has no step when others do, until it counts as ended.
	ended = int64(time.Minute)
)

// Splitter splits the time of requests. The zero value is ready. It is not safe for concurrent use.
type Splitter struct {
	root    map[uint32]uint32   // by PID of a server's process: its first process
	shared  map[uint32]bool     // by first process: requests go to one of several engines, unknown which
	pools   map[uint32]bool     // by first process: each thread may compute requests of its own
	leads   map[uint32]lead     // by what threads belong to: see group
	plans   map[uint32]bool     // PIDs of schedulers: they tell the processes with the GPUs what to compute
	models  map[uint32]string   // of processes in root, by PID
	exits   map[uint32]int64    // Unix ns: when processes in root ended, by PID
	threads map[threadKey]*list // of processes in root
	looked  int                 // ticks since the last look
}

type threadKey struct{ pid, tid uint32 }

// list has the last steps of a thread, in order.
type list struct {
	steps  []step
	works  int                           // number of all steps that launched something
	exit   int64                         // Unix ns: when its process ended, 0: it lives
	graphs bool                          // some of all steps launched a graph
	sums   map[stepKey]*tick.EngineSteps // since the last tick
	vague  bool                          // some step since then does not say whether it launched graphs without a record
	until  int64                         // Unix ns: until then, it is unknown which steps launched graphs
}

// step is a step of an engine. In it, the wait for work comes first.
type step struct {
	from, busy, to int64 // Unix ns; busy: work begins
	launched       bool
	graph          bool   // it launched one; if it launched nothing, the step before it did
	exec           uint64 // handle of the graph, 0: unknown
	gpu, cpu       int64  // ns of the time from busy on
	runnable       int64
	blocked        int64
	unknown        int64
}

// Batch keeps the steps of engines.
func (s *Splitter) Batch(steps []ledger.Step) {
	for i := range steps {
		x := &steps[i]
		if _, ok := s.root[x.PID]; !ok || x.Period || x.From <= 0 {
			continue
		}
		k := threadKey{x.PID, x.TID}
		l := s.threads[k]
		if l == nil {
			if len(s.threads) == mostThreads && !s.makeRoom(x.To) {
				continue
			}
			l = new(list)
			s.threads[k] = l
		}
		if len(l.steps) == mostSteps {
			l.steps = l.steps[:copy(l.steps, l.steps[mostSteps/2:])]
		}
		y := s.stepOf(x)
		key, launched := keyOf(x)
		if launched {
			y.launched = true
			l.works++
			l.count(key, &y)
		} else if n := len(l.steps); n > 0 {
			y.graph = l.steps[n-1].graph
		}
		l.steps, l.graphs, l.vague = append(l.steps, y), l.graphs || y.graph, l.vague || !x.GraphsKnown
	}
}

// makeRoom forgets the thread whose last step is the oldest, if it has ended by now. It reports whether
// there is room.
func (s *Splitter) makeRoom(now int64) bool {
	oldest, at := threadKey{}, now-ended
	for k, l := range s.threads {
		if to := l.last(); to < at {
			oldest, at = k, to
		}
	}
	delete(s.threads, oldest)
	return len(s.threads) < mostThreads
}

// began returns the start of the first step that is kept.
func (l *list) began() int64 { return l.steps[0].from }

// last returns the end of the last step.
func (l *list) last() int64 { return l.steps[len(l.steps)-1].to }

func (s *Splitter) stepOf(x *ledger.Step) step {
	p := &x.Parts
	y := step{from: x.From, to: x.To, graph: x.Marks&ledger.MarkGraph != 0, exec: x.Graph, gpu: p.GPUWait, cpu: p.CallCPU + p.GapCPU,
		runnable: p.Runnable + p.Throttled + p.SyncRunnable + p.SyncThrottled, unknown: p.Unknown}
	awaited := int64(0)
	for why, ns := range p.Blocked {
		switch events.Reason(why) {
		case events.ReasonPipe, events.ReasonSocket, events.ReasonPoll:
			awaited += ns
		default:
			y.blocked += ns
		}
	}
	cpu, runnable := s.planned(x.Waits)
	y.cpu, y.runnable = y.cpu+cpu, y.runnable+runnable
	y.busy = min(x.From+max(awaited-cpu-runnable, 0), x.To)
	return y
}

// planned returns for how long waits for data were waits for a scheduler in a process of its own, which
// was on a CPU, or waited for one, ns. This is not a wait for work.
func (s *Splitter) planned(waits []ledger.Wait) (cpu, runnable int64) {
	for i := range waits {
		w := &waits[i]
		who := w.Who
		if w.Waker.Root.TID != 0 {
			who = w.Waker.Root
		}
		switch w.Reason {
		case events.ReasonPipe, events.ReasonSocket, events.ReasonPoll:
			if w.State == events.WaitBlocked && s.plans[who.PID] {
				cpu, runnable = cpu+int64(w.Waker.OnCPU), runnable+int64(w.Waker.Runnable+w.Waker.Throttled)
			}
		}
	}
	return cpu, runnable
}

// Tick splits the time of a tick's requests.
func (s *Splitter) Tick(t *tick.Tick) {
	var sheds govern.Facts
	for _, level := range t.Overhead.Shed {
		sheds |= govern.Sheds(level)
	}
	for _, l := range s.threads {
		if sheds&govern.GraphLaunches != 0 || l.vague && sheds&govern.EachLaunch != 0 {
			l.until = t.Time.UnixNano()
		}
		l.vague = false
	}
	s.looked++
	unknown := func(x tick.Request) bool { _, known := s.root[x.PID]; return !known }
	if s.root == nil || s.looked >= lookAgain || s.exited(t.Processes) || slices.ContainsFunc(t.Requests, unknown) {
		s.look(t)
	}
	s.lead()
	for i := range t.Requests {
		s.split(&t.Requests[i])
	}
	t.EngineSteps = s.sums(t.Time.UnixNano())
}

// exited notes when processes of servers ended. It reports whether one has ended since the last tick, or
// a new process reuses the PID of one.
func (s *Splitter) exited(processes []tick.Process) (changed bool) {
	for i := range processes {
		p := &processes[i]
		if _, ok := s.root[p.PID]; !ok {
			continue
		}
		_, known := s.exits[p.PID]
		changed = changed || known == p.Ended.IsZero()
		if p.Ended.IsZero() {
			delete(s.exits, p.PID)
		} else {
			s.exits[p.PID] = p.Ended.UnixNano()
		}
	}
	return changed
}

// look finds the processes of each server.
func (s *Splitter) look(t *tick.Tick) {
	all := append(slices.Clone(t.Processes), t.Others...)
	engines := where.Engines(all)
	before := s.root
	s.looked, s.root, s.exits = 0, where.Roots(all, engines), map[uint32]int64{}
	s.shared, s.plans, s.pools = map[uint32]bool{}, map[uint32]bool{}, map[uint32]bool{}
	s.models = map[uint32]string{}
	models := map[uint32]string{}
	for i := range all {
		pid := all[i].PID
		e, root := engines[pid], s.root[pid]
		if root == 0 {
			continue
		}
		s.models[pid] = e.Model
		if e.Data > tick.Numbered(1) {
			s.shared[root] = true
		}
		if !all[i].Ended.IsZero() {
			continue
		}
		if e.Role == where.RoleWorker && e.Model != "" {
			models[root] = cmp.Or(models[root], e.Model)
			s.shared[root] = s.shared[root] || e.Model != models[root]
		}
		if e.Role == where.RoleScheduler {
			s.plans[pid] = true
		}
		if e.Name == where.Triton {
			s.pools[root] = true
		}
	}
	own := func(pid uint32) { // a server that is no known engine computes itself
		if s.root[pid] == 0 {
			s.root[pid], s.pools[pid] = pid, true
		}
	}
	for i := range all {
		if pid := all[i].PID; before[pid] == pid {
			own(pid)
		}
	}
	for i := range t.Requests {
		own(t.Requests[i].PID)
	}
	s.exited(t.Processes)
	if s.threads == nil {
		s.threads, s.leads = map[threadKey]*list{}, map[uint32]lead{}
	}
	for k := range s.threads {
		if s.root[k.pid] == 0 {
			delete(s.threads, k)
		}
	}
}

func (s *Splitter) split(x *tick.Request) {
	x.ToFirst, x.After, x.AtOnce, x.EnginePID, x.EngineTID, x.Split, x.TokenSteps = tick.RequestTime{}, tick.RequestTime{}, tick.RequestTime{}, 0, 0, false, 0
	if x.First < 0 || x.Whole < 0 {
		return
	}
	engine, ok := s.engine(x)
	if !ok || engine.began() > x.Arrived || x.Arrived < engine.until {
		return
	}
	whole, first, last := x.Arrived+int64(x.Whole), x.Arrived+int64(x.First), x.Arrived+int64(x.Last)
	if engine.last() < whole || engine.exit != 0 && engine.exit < x.EndTime() {
		if x.Post {
			s.looked = lookAgain // another process may be the engine now
		}
		return
	}
	x.EnginePID, x.EngineTID, x.Split = engine.pid, engine.tid, true
	x.ToFirst = engine.divide(whole, first, true)
	x.After = engine.divide(first, last, false)
	prompted := first
	if x.Events < 2 && x.ToFirst.Own > 0 {
		prompted -= int64(x.ToFirst.Deliver)
		x.AtOnce = engine.divide(prompted, first, false)
		x.AtOnce.Own, x.AtOnce.Prompts = x.AtOnce.Prompts, 0 // the own prompt was the last one: these steps launched nothing
		x.ToFirst.Deliver = 0
		x.ToFirst.Add(&x.AtOnce)
	}
	x.TokenSteps = engine.tokens(prompted, last)
}

// tokens returns the number of steps for tokens that ended in an interval, in which a request had its
// tokens computed.
func (l *list) tokens(from, to int64) (n uint32) {
	for _, x := range l.steps[sort.Search(len(l.steps), func(i int) bool { return l.steps[i].to > from }):] {
		if x.to > to {
			break
		}
		if x.graph && x.launched {
			l.sum(stepKey{tick.EngineTokens, x.exec}).Served++
			n++
		}
	}
	return n
}

// divide divides an interval by the steps of an engine. With own, the interval ends with the first
// byte of a request whose prompt was computed in it.
func (l *list) divide(from, to int64, own bool) (p tick.RequestTime) {
	steps := l.steps
	begin := sort.Search(len(steps), func(i int) bool { return steps[i].to > from })
	end := begin
	ownStep := -1
	for ; end < len(steps) && steps[end].to <= to; end++ {
		if own && l.graphs && steps[end].launched && !steps[end].graph {
			ownStep = end
		}
	}
	if ownStep >= 0 {
		end = ownStep + 1
	}
	at := from
	for i := begin; i < end; i++ {
		x := &steps[i]
		busy := max(x.busy, at)
		p.Idle += time.Duration(busy - at)
		d := time.Duration(x.to - busy)
		switch {
		case !l.graphs:
			p.Steps += d
		case i == ownStep:
			p.Own += d
		case x.graph:
			p.Tokens += d
		default:
			p.Prompts += d
		}
		x.divide(&p, d)
		at = x.to
	}
	p.Deliver = time.Duration(to - at)
	return p
}

// divide adds d of the time in which a step worked to the parts, each in proportion.
func (x *step) divide(p *tick.RequestTime, d time.Duration) {
	all := x.gpu + x.cpu + x.runnable + x.blocked + x.unknown
	if all <= 0 {
		p.Unknown += d
		return
	}
	left := d
	for _, part := range []struct {
		ns int64
		to *time.Duration
	}{{x.cpu, &p.CPU}, {x.runnable, &p.Runnable}, {x.blocked, &p.Blocked}, {x.unknown, &p.Unknown}} {
		share := time.Duration(float64(d) * float64(part.ns) / float64(all))
		*part.to += share
		left -= share
	}
	p.GPU += left
}
