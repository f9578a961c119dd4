package track

import (
	"maps"
	"testing"

	"ingero/internal/tick"
	"ingero/pkg/events"
)

// Process events arrive separately from calls, and may be late.
func TestLives(t *testing.T) {
	b := newBench(t)
	c := b.make("cudaMalloc", alloc(1<<30, 100))
	c.PID = 2
	b.tr.Batch([]events.Call{c}, nil)
	late := func() (m tick.Memory) {
		var to tick.Tick
		to.States = b.tr.Tick(to.Processes, to.Ops)
		for _, s := range to.States {
			if s.PID == 2 {
				m = s.Memory
			}
		}
		return m
	}
	want := func(when string, bytes, allocs uint64, x tick.Inexact) {
		t.Helper()
		if m := late(); m.GPU.Bytes != bytes || m.Allocs != allocs || m.Inexact != x {
			t.Errorf("%s: %d bytes, %d allocations, %v", when, m.GPU.Bytes, m.Allocs, m.Inexact.Reasons())
		}
	}
	want("whose beginning is not known", 100, 1, tick.InexactAttachedLate)
	b.tr.Batch(nil, []tick.ProcEvent{{Time: c.Start - 1, Kind: tick.ProcForked, PID: 1, Peer: 2}})
	want("that was forked before its first call", 100, 1, 0)
	b.tr.Batch(nil, []tick.ProcEvent{{Time: c.End() + 5, Kind: tick.ProcExited, PID: 2}})
	want("that has ended", 0, 1, 0)
	c.Args[1], c.Start = 2<<30, c.Start+1
	b.tr.Batch([]events.Call{c}, nil)
	want("of which a record was on its way", 0, 2, 0)
	c.Start = c.End() + 100
	b.tr.Batch([]events.Call{c}, nil)
	want("whose number was given to another", 100, 1, tick.InexactAttachedLate)
	if b.tr.allocations != 1 {
		t.Errorf("%d allocations are counted, want 1", b.tr.allocations)
	}
}

// An ended process stays in the states for a while, and is then dropped.
func TestEndedAreForgotten(t *testing.T) {
	b := newBench(t)
	b.call("cudaMalloc", alloc(1<<30, 100))
	b.tr.Batch(nil, []tick.ProcEvent{{Time: b.at + 1, Kind: tick.ProcExited, PID: 1}})
	for range keepEnded {
		b.state()
	}
	b.tr.Tick(nil, nil)
	b.tr.Tick(nil, nil)
	if len(b.tr.procs) != 0 || b.tr.allocations != 0 {
		t.Errorf("%d processes, %d allocations are kept", len(b.tr.procs), b.tr.allocations)
	}
}

// Everything beyond a limit is counted and reported.
func TestBounds(t *testing.T) {
	b := newBench(t)
	calls := make([]events.Call, 0, 1000)
	c := b.make("cudaMalloc", alloc(0, 1))
	for i := range uint64(maxAllocations + 10) {
		c.Args[1] = 1<<30 + i
		if calls = append(calls, c); len(calls) == cap(calls) {
			b.tr.Batch(calls, nil)
			calls = calls[:0]
		}
	}
	b.tr.Batch(calls, nil)
	m := b.state().Memory
	if m.GPU.Count != maxAllocations || m.Untracked != 10 || m.Inexact != tick.InexactFull || m.Allocs != maxAllocations+10 {
		t.Errorf("%+v", m)
	}
	for i := range uint64(maxHandles + 5) {
		b.call("cudaLaunchKernel", on(0x1000+i))
		b.call("cudaGraphLaunch", with{events.RoleExec: 0x1000 + i, events.RoleStream: 0x1000})
		b.call("ncclAllReduce", with{events.RoleComm: 0x1000 + i})
	}
	s := b.state()
	if s.Streams.All != maxHandles || s.Graphs.All != maxHandles || s.Comms.All != maxHandles || s.Untracked != 15 || len(s.Graphs.First) != maxListed {
		t.Errorf("%d streams, %d graphs, %d communicators, %d without room, %d listed", s.Streams.All, s.Graphs.All, s.Comms.All, s.Untracked, len(s.Graphs.First))
	}
	for pid := range uint32(maxProcesses + 10) {
		b.call("cudaLaunchKernel", on(0), func(c *events.Call) { c.PID = 100 + pid })
	}
	if n := b.tr.Untracked(); len(b.tr.procs) != maxProcesses || n != 11 { // process 1 has the first place
		t.Errorf("%d processes, %d calls untracked", len(b.tr.procs), n)
	}
}

// Ended processes make room for new ones: first those without calls, then the one that ended first.
func TestEndedMakeRoom(t *testing.T) {
	for _, tt := range []struct {
		name  string
		calls bool // whether the helpers make calls
		kept  bool // whether the first process that ended with calls is kept
	}{
		{"helpers without calls", false, true},
		{"helpers with calls", true, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t)
			of := func(pid uint32) func(*events.Call) { return func(c *events.Call) { c.PID = pid } }
			exit := func(pid uint32) {
				b.tr.Batch(nil, []tick.ProcEvent{{Time: b.at + 1, Kind: tick.ProcExited, PID: pid}})
				b.at += 2
			}
			b.call("cudaLaunchKernel", on(0))
			b.call("cudaLaunchKernel", on(0), of(2))
			exit(2)
			for pid := range uint32(600) {
				b.tr.Batch(nil, []tick.ProcEvent{{Time: b.at, Kind: tick.ProcForked, PID: 9, Peer: 100 + pid}})
				if tt.calls {
					b.call("cudaLaunchKernel", on(0), of(100+pid))
				}
				exit(100 + pid)
			}
			b.call("cudaLaunchKernel", on(0), of(3))
			states := map[uint32]bool{}
			for _, s := range b.tr.Tick(nil, nil) {
				states[s.PID] = true
			}
			if !states[1] || !states[3] || states[2] != tt.kept || !states[699] || len(states) != maxProcesses {
				t.Errorf("%d states: running %v, new %v, ended before %v, ended last %v", len(states), states[1], states[3], states[2], states[699])
			}
			if n := b.tr.Untracked(); n != 0 || b.tr.ended != maxProcesses-2 {
				t.Errorf("%d calls untracked, %d ended", n, b.tr.ended)
			}
		})
	}
}

// Living children that make no calls leave room for those that do, also if it is one of them.
func TestSilentChildrenMakeRoom(t *testing.T) {
	b := newBench(t)
	of := func(pid uint32) func(*events.Call) { return func(c *events.Call) { c.PID = pid } }
	for pid := range uint32(600) {
		b.at++
		b.tr.Batch(nil, []tick.ProcEvent{{Time: b.at, Kind: tick.ProcForked, PID: 9, Peer: 100 + pid}})
	}
	b.call("cudaLaunchKernel", on(0))
	for _, pid := range []uint32{3, 100, 699} {
		b.call("cudaMalloc", with{events.RolePtr: 0x1000, events.RoleBytes: 100}, of(pid))
	}
	held := map[uint32]uint64{}
	for _, s := range b.tr.Tick(nil, nil) {
		if s.Memory.GPU.Bytes > 0 {
			held[s.PID] = s.Memory.GPU.Bytes
		}
	}
	if want := map[uint32]uint64{3: 100, 100: 100, 699: 100}; !maps.Equal(held, want) {
		t.Errorf("memory %v, want %v", held, want)
	}
	if n := b.tr.Untracked(); n != 0 || len(b.tr.procs) != maxProcesses {
		t.Errorf("%d calls untracked, %d processes", n, len(b.tr.procs))
	}
}

// A fatal signal does not change a process's state: its exit does.
func TestKilledKeepsItsState(t *testing.T) {
	b := newBench(t)
	b.call("cudaMalloc", with{events.RolePtr: 0x1000, events.RoleBytes: 100})
	b.call("ncclCommInitRank", with{events.RoleComm: 0xc0, events.RoleCommID: 0xabc, events.RoleRanks: 2, events.RoleRank: 1})
	b.call("ncclAllReduce", with{events.RoleComm: 0xc0})
	b.tr.Batch(nil, []tick.ProcEvent{{Time: b.at + 1, Kind: tick.ProcOOM, PID: 1}, {Time: b.at + 1, Kind: tick.ProcKilled, PID: 1, Signal: 9}})
	if s := b.state(); s.Memory.GPU.Bytes != 100 || len(s.Comms.First) != 1 {
		t.Errorf("before its exit: %+v", s)
	}
	b.tr.Batch(nil, []tick.ProcEvent{{Time: b.at + 2, Kind: tick.ProcExited, PID: 1}})
	if s := b.state(); s.Memory.GPU.Bytes != 0 || len(s.Comms.First) != 1 || s.Comms.First[0].Collectives != 1 {
		t.Errorf("after it: %+v", s)
	}
}
