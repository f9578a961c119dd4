package explain

import (
	"time"

	"ingero/internal/store/storetest"
	"ingero/internal/testkit"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

// Operations of the tests.
var (
	launch    = testkit.Op("cudaLaunchKernel")
	cuLaunch  = testkit.Op("cuLaunchKernel")
	streamSyn = testkit.Op("cudaStreamSynchronize")
	cuSync    = testkit.Op("cuStreamSynchronize")
	malloc    = testkit.Op("cudaMalloc")
	cuAlloc   = testkit.Op("cuMemAlloc")
	memcpy    = testkit.Op("cudaMemcpyAsync")
	graph     = testkit.Op("cudaGraphLaunch")
	longName  = testkit.Op("cudaLaunchCooperativeKernelMultiDevice")
)

var start = time.Date(2026, 3, 2, 14, 41, 0, 0, time.UTC)

// maker simulates the kernel: it counts the calls that it is given, and keeps the records that the
// kernel would make.
type maker struct {
	ops     storetest.Counts
	gaps    tick.Gaps
	records []events.Call
	weight  uint32
}

func newMaker() *maker { return &maker{ops: storetest.Counts{}, gaps: tick.Gaps{}, weight: 1} }

// call counts a call, and those inside it.
func (m *maker) call(c events.Call, inner ...events.Call) {
	c.Duration = c.OnCPU + c.Runnable + c.Blocked
	c.Gap = c.GapOnCPU + c.GapRunnable + c.GapBlocked
	c.Weight = m.weight
	for _, x := range inner {
		x.PID, x.Parent, x.Flags = c.PID, c.Op, x.Flags|events.CallNested
		m.call(x)
	}
	m.ops.See(c)
	m.gaps.Add(&c)
	m.records = append(m.records, c)
}

// list returns the counts, ordered as in a tick except for the PIDs.
func (m *maker) list() (out []tick.Op) {
	all := m.ops.List()
	for i := range all {
		all[i].Last, all[i].DurLast = all[i].Sum, all[i].Dur
	}
	for len(all) > 0 { // joinOps sorts; by process, so that nothing is joined
		n := 1
		for n < len(all) && all[n].PID == all[0].PID {
			n++
		}
		out, all = append(out, joinOps(all[:n])...), all[n:]
	}
	return out
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
