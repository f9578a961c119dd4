package explain

import (
	"time"

	"ingero/internal/stats"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

// Operations of the tests.
var (
	launch    = mustOp("cudaLaunchKernel")
	cuLaunch  = mustOp("cuLaunchKernel")
	streamSyn = mustOp("cudaStreamSynchronize")
	cuSync    = mustOp("cuStreamSynchronize")
	malloc    = mustOp("cudaMalloc")
	cuAlloc   = mustOp("cuMemAlloc")
	memcpy    = mustOp("cudaMemcpyAsync")
	graph     = mustOp("cudaGraphLaunch")
	longName  = mustOp("cudaLaunchCooperativeKernelMultiDevice")
)

func mustOp(name string) events.Op {
	op, ok := events.OpByName(name)
	if !ok {
		panic(name)
	}
	return op
}

var start = time.Date(2026, 3, 2, 14, 41, 0, 0, time.UTC)

// maker simulates the kernel: it counts the calls that it is given, and keeps the records that the
// kernel would make.
type maker struct {
	ops     map[uint32]map[events.Op]*tick.Op
	gaps    tick.Gaps
	records []events.Call
	weight  uint32
}

func newMaker() *maker {
	return &maker{ops: map[uint32]map[events.Op]*tick.Op{}, gaps: tick.Gaps{}, weight: 1}
}

func (m *maker) op(pid uint32, op events.Op) *tick.Op {
	if m.ops[pid] == nil {
		m.ops[pid] = map[events.Op]*tick.Op{}
	}
	o := m.ops[pid][op]
	if o == nil {
		o = &tick.Op{PID: pid, Op: op, Dur: &stats.Sketch{}, DurLast: &stats.Sketch{}, Hist: &stats.Hist{}}
		m.ops[pid][op] = o
	}
	return o
}

// call counts a call, and those inside it.
func (m *maker) call(c events.Call, inner ...events.Call) {
	c.Duration = c.OnCPU + c.Runnable + c.Blocked
	c.Gap = c.GapOnCPU + c.GapRunnable + c.GapBlocked
	c.Weight = m.weight
	var inside int64
	for _, x := range inner {
		x.PID, x.Parent, x.Flags = c.PID, c.Op, x.Flags|events.CallNested
		m.call(x)
		if x.Flags&events.CallUnmeasured == 0 {
			inside += x.OnCPU + x.Runnable + x.Blocked
		}
	}
	s := &m.op(c.PID, c.Op).Sum
	s.Calls++
	if c.Flags&events.CallNested != 0 {
		s.Nested++
	}
	if c.Flags&events.CallUnmeasured != 0 {
		s.Unmeasured++
	} else {
		m.returned(&c, inside)
	}
	m.gaps.Add(&c)
	m.records = append(m.records, c)
}

func (m *maker) returned(c *events.Call, inside int64) {
	o := m.op(c.PID, c.Op)
	s := &o.Sum
	s.Done++
	s.Total += uint64(c.Duration)
	s.Inner += uint64(inside)
	s.Runnable += uint64(c.Runnable)
	if c.Flags&events.CallLedgerPartial != 0 {
		s.Partial++
		s.PartialNS += uint64(c.Duration - c.Runnable)
	} else {
		s.OnCPU += uint64(c.OnCPU)
	}
	if c.Flags&events.CallFailed != 0 {
		s.Errors++
	}
	o.Dur.Add(c.Duration, 1)
	o.Hist.Record(c.Duration, 1)
}

// list returns the counts, ordered as in a tick except for the PIDs.
func (m *maker) list() []tick.Op {
	var out []tick.Op
	for _, ops := range m.ops {
		for _, o := range ops {
			o.Last, o.DurLast = o.Sum, o.Dur
			out = append(out, *o)
		}
	}
	// joinOps sorts; by process first, so that nothing is joined
	var sorted []tick.Op
	for pid := range uint32(10000) {
		if m.ops[pid] == nil {
			continue
		}
		var own []tick.Op
		for i := range out {
			if out[i].PID == pid {
				own = append(own, out[i])
			}
		}
		sorted = append(sorted, joinOps(own)...)
	}
	return sorted
}

const ms = 1_000_000

// train is a training loop: launches made by the driver, a copy, a spinning wait and a blocking
// one, and an allocation that fails.
func train(pid uint32, steps int) *maker {
	m := newMaker()
	m.train(pid, steps)
	return m
}

func (m *maker) train(pid uint32, steps int) {
	for i := range steps {
		for j := range 20 {
			m.call(events.Call{PID: pid, TID: pid, Op: launch, OnCPU: int64(4000 + 100*j), GapOnCPU: 30_000},
				events.Call{Op: cuLaunch, Flags: events.CallUnmeasured | events.CallInherited})
		}
		m.call(events.Call{PID: pid, TID: pid, Op: memcpy, OnCPU: 21_000, Runnable: int64(i%7) * 3000, GapOnCPU: 12_000, GapBlocked: 400_000})
		m.call(events.Call{PID: pid, TID: pid, Op: streamSyn, OnCPU: 12 * ms, Runnable: int64(i%5) * 100_000, Blocked: 2 * ms, GapOnCPU: 5000, GapRunnable: 8000},
			events.Call{Op: cuSync, OnCPU: 11*ms + 900_000, Runnable: int64(i%5) * 100_000, Blocked: 2 * ms})
		if i%50 == 0 {
			m.call(events.Call{PID: pid, TID: pid, Op: malloc, OnCPU: 90_000, GapOnCPU: 1000, Result: 2, Flags: events.CallFailed},
				events.Call{Op: cuAlloc, OnCPU: 80_000, Result: 2, Flags: events.CallFailed})
			m.call(events.Call{PID: pid, TID: pid, Op: cuAlloc, OnCPU: 70_000, Blocked: 10_000, GapOnCPU: 1000})
		}
	}
}

func process(pid uint32) tick.Process {
	return tick.Process{PID: pid, PPID: 1, NSPID: 7, UID: 1000, Comm: "python3", Exe: "/usr/bin/python3.11",
		Started: start.Add(-time.Minute), Mapped: start.Add(-200 * time.Millisecond), Attached: start.Add(13 * time.Millisecond)}
}

func input(m *maker, pids ...uint32) *Input {
	in := &Input{From: start, To: start.Add(time.Minute), Node: "gpu-7", Source: "session.log", Ops: m.list(), Gaps: m.gaps}
	for _, pid := range pids {
		in.Processes = append(in.Processes, process(pid))
	}
	return in
}

var cet = time.FixedZone("CET", 3600)

func minutes(n int) time.Duration { return time.Duration(n) * time.Minute }
