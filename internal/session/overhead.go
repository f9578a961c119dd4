package session

import (
	"cmp"
	"slices"
	"time"

	"ingero/internal/govern"
	"ingero/internal/probes"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

// Sheddable is a source that can shed features.
type Sheddable interface {
	// MaxOverhead returns the bound on the cost of tracing, as a share of the time of the traced
	// processes; 0: no bound.
	MaxOverhead() float64
	// ProbeCost returns the cost per call of an operation's probes, in ns: of a timed call and of a
	// counted one. known is false if it was not measured.
	ProbeCost(op events.Op) (timed, counted uint64, known bool)
	// Spent returns the other costs of tracing.
	Spent() (Spent, error)
	// Lacks reports whether a step cannot be taken, since there is nothing to shed.
	Lacks(step int) bool
	// Shed takes a step, or takes it back. hot has all operations whose probes the step detaches,
	// if it does that. It may be taken again, with more of them.
	Shed(now time.Time, c govern.Change, hot []events.Op) error
	// CountLaunches makes launches of these processes counted, and those of all others timed.
	CountLaunches(pids []uint32) error
}

// Spent is the cost of tracing other than probes.
type Spent struct {
	Stacks time.Duration // time of the traced threads for stacks of their calls, since the start
	// OwnStacks is likewise, for stacks of threads between calls and while others wait for them.
	OwnStacks time.Duration
	Copies    time.Duration // likewise, of the probes of further library files with the same inode
	// Host and Ledger are the shares of one CPU that tracepoint programs took, at the last
	// measurement.
	Host, Ledger float64
	// Partial says that probes were attached or detached since the last call.
	Partial bool
}

// recordCost is the agent's cost to read, pass on and store a record: benchmarks/throughput -record
// gives 430 ns at 100,000 records a second, including all else that the agent does, and 156 ns at
// 500,000.
const recordCost = 400 * time.Nanosecond

// hotShare is the least share of a process's cost of probes that makes an operation hot.
const hotShare = 0.1

// budget computes the cost of tracing, and takes steps.
type budget struct {
	govern.Budget
	last    spentAt
	prices  map[events.Op]price // of the current tick
	threads map[nameKey]uint64  // CPU time of threads so far, ns
	counted []uint32            // processes whose launches are counted only, sorted
	out     []events.Op         // operations whose probes are detached
	floor   tick.Floor          // of the last tick that had all probes attached throughout
	below   tick.Report         // the bound is below floor; zero: it is not
	before  int                 // number of the reports before this one
}

type spentAt struct {
	known   bool
	stacks  time.Duration
	own     time.Duration
	copies  time.Duration
	agent   time.Duration
	records uint64
}

// price is the cost of an operation's probes, as [Sheddable.ProbeCost] returns it.
type price struct {
	timed, counted uint64
	known          bool
}

// processCost is a process with the cost of tracing it.
type processCost struct {
	pid                     uint32
	time                    float64 // ns
	calls                   uint64
	probes, launches, quick uint64 // ns
	twice                   uint64 // of launches: the runtime's part, ns
	least                   uint64 // probes if all calls that can be counted only were, ns
	probed                  uint64 // calls with a probe
}

// tick returns the cost of tracing, and has the source shed or restore features accordingly. agent
// is the agent's CPU time since the start.
func (b *budget) tick(s Sheddable, t *tick.Tick, agent time.Duration) (o tick.Overhead, err error) {
	if b.Share = s.MaxOverhead(); b.Share <= 0 {
		return o, nil
	}
	spent, err := s.Spent()
	if err != nil {
		return o, err
	}
	o.Budget = b.Share
	load, payers, hot := b.measure(s, t, &spent, agent, &o)
	if !t.Final && load != nil {
		for range max(1, len(b.Forced)) {
			c, any := b.Tick(t.Time, t.Window, load)
			if !any {
				break
			}
			all := slices.Concat(b.out, hot)
			if err := s.Shed(t.Time, c, all); err != nil {
				return o, err
			}
			switch {
			case govern.Steps[c.Step].Part != govern.Hot:
			case c.Taken:
				b.out = all
			default:
				b.out = nil
			}
		}
	}
	for _, step := range b.Taken() {
		o.Shed = append(o.Shed, govern.Steps[step].Name)
	}
	b.setFloor(&o)
	if load == nil || t.Final {
		return o, nil
	}
	now := b.counts(payers)
	if slices.Equal(now, b.counted) {
		return o, nil
	}
	b.counted = now
	return o, s.CountLaunches(now)
}

// counts returns the processes whose launches are to be counted only, sorted: while that step is
// taken, those with costly launches, and those already counted.
func (b *budget) counts(payers []processCost) (pids []uint32) {
	if !b.sheds(govern.Launches) {
		return nil
	}
	for i := range payers {
		p := &payers[i]
		if slices.Contains(b.counted, p.pid) || b.Saves(float64(p.launches)/p.time) {
			pids = append(pids, p.pid)
		}
	}
	slices.Sort(pids)
	return pids
}

// measure fills o with the cost of tracing. It returns the cost for the decision, the processes
// that pay it and the hot operations that have probes. All are nil without an earlier tick to compare
// with. Without a living process the cost is zero, and no step is possible.
func (b *budget) measure(s Sheddable, t *tick.Tick, spent *Spent, agentCPU time.Duration, o *tick.Overhead) (*govern.Load, []processCost, []events.Op) {
	was := b.last
	b.last = spentAt{true, spent.Stacks, spent.OwnStacks, spent.Copies, agentCPU, t.Records}
	b.prices = map[events.Op]price{}
	if b.sheds(govern.Host) {
		spent.Host = 0 // the last measurement may be older than the step
	}
	payers := b.payers(s, t)
	if !was.known || t.Window < time.Millisecond {
		return nil, nil, nil
	}
	if len(payers) == 0 {
		return &govern.Load{Partial: spent.Partial, Lacks: func(int) bool { return true }}, nil, nil
	}
	var all, calls float64
	var most uint64 // calls of a process
	for i := range payers {
		all += payers[i].time
		calls += float64(payers[i].calls)
		most = max(most, payers[i].calls)
	}
	copies := float64(spent.Copies - was.copies)
	for i := range payers { // they also fire for calls that are counted only
		again := uint64(copies * float64(payers[i].calls) / max(calls, 1))
		payers[i].probes, payers[i].least = payers[i].probes+again, payers[i].least+again
	}
	ofCalls, own := float64(spent.Stacks-was.stacks), float64(spent.OwnStacks-was.own)
	// No step saves the agent's other work, which is most at its start.
	agent := min(float64(max(agentCPU-was.agent, 0)), float64(recordCost)*float64(t.Records-min(was.records, t.Records)))
	stacksOf := func(p *processCost) float64 { return (ofCalls + own) * float64(p.calls) / max(calls, 1) }
	worst := slices.MaxFunc(payers, func(x, y processCost) int {
		return cmp.Compare((float64(x.probes)+stacksOf(&x))/x.time, (float64(y.probes)+stacksOf(&y))/y.time)
	})
	hot := slices.DeleteFunc(b.hotOps(s, t, &worst), func(op events.Op) bool { return slices.Contains(b.out, op) })
	window := float64(t.Window)
	if !b.sheds(govern.Hot) && !spent.Partial {
		b.floor = tick.Floor{Share: float64(worst.least) / worst.time, Rate: float64(worst.probed) / t.Window.Seconds(), Probe: time.Duration(worst.least / max(worst.probed, 1))}
	}
	o.Probes, o.Stacks = float64(worst.probes)/worst.time, stacksOf(&worst)/worst.time
	o.Agent, o.Tracepoints = agent/all, (spent.Host+spent.Ledger)*window/all
	o.Share = o.Probes + o.Stacks + o.Agent + o.Tracepoints
	l := &govern.Load{Share: o.Share, Agent: o.Agent, Calls: most, Partial: spent.Partial}
	l.Parts[govern.CallStacks] = o.Stacks * ofCalls / max(ofCalls+own, 1)
	l.Parts[govern.AllStacks] = o.Stacks
	l.Parts[govern.Records] = o.Agent
	l.Parts[govern.Launches] = float64(worst.launches) / worst.time
	l.Parts[govern.Calls] = float64(worst.quick) / worst.time
	l.Parts[govern.Hot] = o.Probes
	l.Parts[govern.Twice] = float64(worst.twice) / worst.time
	l.Parts[govern.Host] = spent.Host * window / all
	l.Lacks = func(step int) bool {
		return s.Lacks(step) || govern.Steps[step].Part == govern.Hot && len(hot) == 0
	}
	return l, payers, hot
}

// costOf returns the cost of the probes of an operation's calls. counted is that of one call that is
// only counted. ok is false if it has no probe whose cost is known.
func (b *budget) costOf(s Sheddable, o *tick.Op) (cost, counted uint64, row *events.Row, ok bool) {
	p, asked := b.prices[o.Op]
	if !asked {
		p.timed, p.counted, p.known = s.ProbeCost(o.Op)
		b.prices[o.Op] = p
	}
	row = o.Op.Row()
	if !p.known || row == nil {
		return 0, 0, nil, false
	}
	only := min(o.Last.Unmeasured, o.Last.Calls)
	return (o.Last.Calls-only)*p.timed + only*p.counted, p.counted, row, true
}

// hotOps returns the operations whose probes may be detached and cost a process most, sorted.
func (b *budget) hotOps(s Sheddable, t *tick.Tick, of *processCost) (hot []events.Op) {
	for i := range t.Ops {
		o := &t.Ops[i]
		if o.PID != of.pid || o.Last.Calls == 0 {
			continue
		}
		cost, _, row, ok := b.costOf(s, o)
		if ok && cost > 0 && probes.Expensive(row) && float64(cost) >= hotShare*float64(of.probes) {
			hot = append(hot, o.Op)
		}
	}
	slices.Sort(hot)
	return hot
}

// payers returns the cost of probes of each living process.
func (b *budget) payers(s Sheddable, t *tick.Tick) (out []processCost) {
	at := map[uint32]int{}
	for i := range t.Processes {
		if p := &t.Processes[i]; p.Ended.IsZero() {
			at[p.PID] = len(out)
			out = append(out, processCost{pid: p.PID})
		}
	}
	b.ran(t, out, at)
	for i := range t.Ops {
		o := &t.Ops[i]
		if o.Last.Calls == 0 { // as of the ended processes that a tick still lists
			continue
		}
		j, lives := at[o.PID]
		if !lives {
			continue
		}
		cost, counted, row, ok := b.costOf(s, o)
		if !ok {
			continue
		}
		p := &out[j]
		p.calls, p.probes = p.calls+o.Last.Calls, p.probes+cost
		if probes.Expensive(row) {
			p.least += min(cost, o.Last.Calls*counted)
		} else {
			p.least += cost
		}
		if counted > 0 {
			p.probed += o.Last.Calls
		}
		switch {
		case row.Class == events.ClassLaunch:
			p.launches += cost
			if probes.Doubled(row) {
				p.twice += cost
			}
		case probes.Quick(row):
			p.quick += cost
		}
	}
	return out
}

// ran fills the time of each process: the window, or the CPU time of its calling threads if that is
// more.
func (b *budget) ran(t *tick.Tick, out []processCost, at map[uint32]int) {
	now := make(map[nameKey]uint64, len(b.threads))
	for i := range t.Threads {
		x := &t.Threads[i]
		j, lives := at[x.PID]
		if x.Enrolled || !lives {
			continue
		}
		k := nameKey{x.TID, x.Since}
		now[k] = x.InCalls.OnCPU + x.Between.OnCPU
		ran := now[k] - min(b.threads[k], now[k])
		out[j].time += float64(min(ran, uint64(max(t.Window, 0))))
	}
	b.threads = now
	for i := range out {
		out[i].time = max(out[i].time, float64(t.Window))
	}
}
