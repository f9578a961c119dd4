package explain

import (
	"cmp"
	"slices"

	"ingero/internal/stats"
	"ingero/internal/tick"
	"ingero/internal/where"
	"ingero/internal/wire"
	"ingero/pkg/events"
)

// report is the model of Report and ReportJSON.
type report struct {
	wire.Report
	source map[uint32]*tick.Breakdown // by PID
}

// build builds the model of a report.
func build(in *Input) report {
	r := report{Report: wire.Report{
		From: in.From.UTC(), To: in.To.UTC(), Node: clean(in.Node), Source: clean(in.Source),
		Processes: []wire.ProcessReport{}, Drops: dropsOf(in.Drops), Reports: reportsOf(in.Reports),
	}, source: breakdowns(in.Breakdowns)}
	r.Labels = in.Labels.names()
	r.Chains, r.Threads = []wire.Chain{}, threadsOf(in.Threads)
	victimOf := victims(in.Processes, in.Host)
	for i := range in.Chains {
		r.Chains = append(r.Chains, chainOf(&in.Chains[i], victimOf(in.Chains[i].PID)))
	}
	r.Hidden = hiddenOf(in.Hidden)
	if in.Host != nil {
		r.Host = new(hostOf(in.Host))
	}
	r.HostSums = hostSumsOf(in.HostSums)
	if in.Self != nil {
		r.Self = new(selfOf(in.Self))
	}
	if in.Requests != nil {
		r.Servers, r.Engines = in.Requests.List(), in.Requests.Engines.List()
	}
	for i := range in.Xids {
		r.Xids = append(r.Xids, xidOf(&in.Xids[i]))
	}
	r.Inference = InferenceServers(in.Servers)
	byPID := map[uint32][]tick.Op{}
	for i := range in.Ops {
		byPID[in.Ops[i].PID] = append(byPID[in.Ops[i].PID], in.Ops[i])
	}
	slowed := slowedIn(in, &r)
	launched, engines := joinLaunches(in.Launches), where.Engines(in.Processes)
	for _, p := range processes(in, byPID) {
		x := buildProcess(in, &p, joinOps(byPID[p.PID]))
		in.Labels.restrict(&x)
		if b := r.source[p.PID]; b != nil {
			x.Breakdown = new(breakdownOf(b))
			x.Unexplained = r.remark(in, &x, b, slowed[p.PID])
		}
		if m, known := in.Memory[p.PID]; known {
			x.Memory = memoryOf(&m)
		}
		if e, known := engines[p.PID]; known {
			x.Engine = new(e.Map(clean))
		}
		x.Functions = launched[p.PID]
		r.Processes = append(r.Processes, x)
	}
	markUncounted(&r, in.Reports)
	r.Concurrent = concurrent(r.Processes)
	r.Notes = reportNotes(in, &r)
	return r
}

// processes returns the processes of the input, each once, and those known only from operations, by
// PID.
func processes(in *Input, ops map[uint32][]tick.Op) []tick.Process {
	known := map[uint32]bool{}
	var out []tick.Process
	for i := range in.Processes {
		if p := in.Processes[i]; !known[p.PID] {
			known[p.PID] = true
			out = append(out, p)
		}
	}
	for pid := range ops {
		if !known[pid] {
			out = append(out, tick.Process{PID: pid})
		}
	}
	slices.SortStableFunc(out, func(a, b tick.Process) int { return cmp.Compare(a.PID, b.PID) })
	return out
}

// joinOps adds up repeated operations and sorts them. It does not modify what the operations point
// to.
func joinOps(ops []tick.Op) []tick.Op {
	var out []tick.Op
	at := map[events.Op]int{}
	own := map[events.Op]bool{} // it has its own sum
	for i := range ops {
		o := &ops[i]
		j, again := at[o.Op]
		if !again {
			at[o.Op] = len(out)
			out = append(out, *o)
			continue
		}
		if !own[o.Op] {
			own[o.Op] = true
			x := &out[j]
			x.Dur, x.DurLast = x.Dur.Clone(), x.DurLast.Clone()
			if x.Hist != nil {
				x.Hist = new(*x.Hist)
			}
		}
		join(&out[j], o)
	}
	slices.SortStableFunc(out, func(a, b tick.Op) int { return cmp.Compare(a.Op, b.Op) })
	return out
}

// join adds o to x, which owns what it points to.
func join(x, o *tick.Op) {
	x.Sum = plus(x.Sum, o.Sum)
	x.Last = plus(x.Last, o.Last)
	x.Dur = joinSketch(x.Dur, o.Dur)
	x.DurLast = joinSketch(x.DurLast, o.DurLast)
	if o.Hist != nil {
		if x.Hist == nil {
			x.Hist = &stats.Hist{}
		}
		x.Hist.Add(o.Hist)
	}
	x.Thinned = x.Thinned || o.Thinned
}

func joinSketch(a, b *stats.Sketch) *stats.Sketch {
	if a == nil {
		return b.Clone()
	}
	a.Merge(b)
	return a
}

func plus(a, b tick.Counts) tick.Counts {
	return tick.Counts{
		Calls: a.Calls + b.Calls, Done: a.Done + b.Done, Errors: a.Errors + b.Errors,
		Nested: a.Nested + b.Nested, Unmeasured: a.Unmeasured + b.Unmeasured, Abandoned: a.Abandoned + b.Abandoned,
		Total: a.Total + b.Total, OnCPU: a.OnCPU + b.OnCPU, Runnable: a.Runnable + b.Runnable,
		Throttled: a.Throttled + b.Throttled, Inner: a.Inner + b.Inner, Partial: a.Partial + b.Partial, PartialNS: a.PartialNS + b.PartialNS,
	}
}

func buildProcess(in *Input, p *tick.Process, ops []tick.Op) wire.ProcessReport {
	r := wire.ProcessReport{Process: processOf(p), From: in.From.UTC(), To: in.To.UTC(), Layers: []wire.Layer{}, Ops: []wire.Op{}}
	if p.Attached.After(r.From) {
		r.From = p.Attached.UTC()
	}
	if !p.Ended.IsZero() && (r.To.IsZero() || p.Ended.Before(r.To)) {
		r.To = p.Ended.UTC()
	}
	outer := outermost(ops)
	hidden := inDriverLaunches(ops)
	for i := range ops {
		o := &ops[i]
		if o.Sum.Calls == 0 {
			continue
		}
		r.Calls += o.Sum.Calls
		r.Outermost += o.Sum.Calls - min(o.Sum.Calls, o.Sum.Nested)
		r.Errors += o.Sum.Errors
		j := opOf(o, &o.Sum, o.Dur)
		j.OuterNS = nil
		if o.Sum.Done > 0 {
			j.OuterNS = new(outer[i].total)
		}
		if hidden && holdsLaunches(o) {
			j.SelfNS = nil
		}
		r.Ops = append(r.Ops, j)
		addToLayer(&r, o, hidden)
	}
	if n, ok := launches(ops); ok && n > 0 {
		r.Launch = &n
	}
	r.Time = timeOf(ops, outer, in.Gaps[p.PID])
	r.Notes = processNotes(p, ops, outer, r.Time, in.From)
	return r
}

// holdsLaunches reports whether an operation's own time may include launches that were counted, not
// timed.
func holdsLaunches(o *tick.Op) bool {
	row := o.Op.Row()
	return row != nil && row.Class == events.ClassLaunch && row.Lib == events.LibCudart
}

// addToLayer adds an operation to the sum of its layer.
func addToLayer(r *wire.ProcessReport, o *tick.Op, hidden bool) {
	s := o.Op.Source().String()
	if n := len(r.Layers); n == 0 || r.Layers[n-1].Source != s { // ops are ordered by source
		r.Layers = append(r.Layers, wire.Layer{Source: s})
	}
	l := &r.Layers[len(r.Layers)-1]
	l.Calls += o.Sum.Calls
	l.Outermost += o.Sum.Calls - min(o.Sum.Calls, o.Sum.Nested)
	l.Errors += o.Sum.Errors
	if o.Sum.Done == 0 {
		return
	}
	l.SelfAtMost = l.SelfAtMost || hidden && holdsLaunches(o)
	if l.SelfNS == nil {
		l.SelfNS = new(uint64(0))
	}
	*l.SelfNS += own(&o.Sum)
}

// The parts of the time of a process's threads.
const (
	gpuWait = iota
	cpuBetween
	cpuInCalls
	runnable
	throttled
	blocked
	undecided
	timeParts
)

// gpuWait: in synchronizing calls, spinning or blocked. undecided: on a CPU or blocked, in threads
// that blocked and changed CPU.
var partNames = [timeParts]string{"gpu_wait", "cpu_between_calls", "cpu_in_calls", "runnable", "throttled", "blocked", "cpu_or_blocked"}

// timeOf divides the time; nil if no call was timed.
func timeOf(ops []tick.Op, outer []split, gap *tick.Gap) *wire.TimeReport {
	t := &wire.TimeReport{Parts: make([]wire.TimePart, timeParts), Classes: []wire.ClassTime{}}
	var class [events.ClassSync + 1]uint64
	var done uint64
	add := func(part int, o *tick.Op, ns uint64) {
		p := &t.Parts[part]
		p.InCallsNS += ns
		if ns > 0 {
			p.Ops = append(p.Ops, wire.OpTime{Op: o.Op.String(), NS: ns, Calls: o.Sum.Calls - min(o.Sum.Calls, o.Sum.Nested)})
		}
	}
	for i := range ops {
		o, s := &ops[i], &outer[i]
		done += o.Sum.Done
		c := classOf(o.Op)
		class[c] += s.total
		add(runnable, o, s.runnable)
		add(throttled, o, s.throttled)
		if c == events.ClassSync {
			add(gpuWait, o, s.total-s.runnable-s.throttled)
			continue
		}
		add(cpuInCalls, o, s.onCPU)
		add(blocked, o, s.blocked)
		add(undecided, o, s.partial)
	}
	if done == 0 {
		return nil
	}
	addGaps(t, ops, outer, gap)
	addUp(t, class[:])
	return t
}

// addGaps adds the threads' time between calls. The known gaps include calls with lost records,
// which are subtracted with the average time of all calls.
func addGaps(t *wire.TimeReport, ops []tick.Op, outer []split, gap *tick.Gap) {
	if gap == nil || gap.Calls == 0 {
		return
	}
	t.GapsKnown = true
	s := split{total: gap.Total, onCPU: gap.OnCPU, runnable: gap.Runnable, throttled: gap.Throttled, blocked: gap.Blocked, partial: gap.Partial}
	var made uint64
	for i := range ops {
		t.Estimated = t.Estimated || ops[i].Thinned
		made += ops[i].Sum.Done - nestedMeasured(&ops[i].Sum)
	}
	if t.Estimated && made > gap.Calls {
		lost := float64(made-gap.Calls) / float64(made)
		for i := range outer {
			s.lack(&outer[i], lost)
		}
	}
	t.Parts[cpuBetween].BetweenNS = s.onCPU
	t.Parts[runnable].BetweenNS = s.runnable
	t.Parts[throttled].BetweenNS = s.throttled
	t.Parts[blocked].BetweenNS = s.blocked
	t.Parts[undecided].BetweenNS = s.partial
}

// addUp adds up and computes shares.
func addUp(t *wire.TimeReport, class []uint64) {
	ns := make([]uint64, timeParts)
	for i := range t.Parts {
		p := &t.Parts[i]
		p.Name, p.NS = partNames[i], p.InCallsNS+p.BetweenNS
		ns[i] = p.NS
		t.ThreadNS += p.NS
		slices.SortStableFunc(p.Ops, func(a, b wire.OpTime) int { return cmp.Compare(b.NS, a.NS) })
	}
	for i, share := range permille(ns) {
		t.Parts[i].Percent = float64(share) / 10
	}
	inCalls := t.ThreadNS
	for _, n := range class {
		inCalls -= n
	}
	shares := permille(append(slices.Clone(class), inCalls)) // the last one: between calls
	for c, n := range class {
		if n > 0 {
			t.Classes = append(t.Classes, wire.ClassTime{Class: events.Class(c).String(), NS: n, Percent: float64(shares[c]) / 10})
		}
	}
	slices.SortStableFunc(t.Classes, func(a, b wire.ClassTime) int { return cmp.Compare(b.NS, a.NS) })
}

func classOf(o events.Op) events.Class {
	if r := o.Row(); r != nil && r.Class <= events.ClassSync {
		return r.Class
	}
	return events.ClassOther
}
