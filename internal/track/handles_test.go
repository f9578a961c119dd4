package track

import (
	"testing"

	"ingero/internal/tick"
	"ingero/pkg/events"
)

// capture captures two launches in a stream, and makes the graph executable.
func capture(b *bench, stream, graph, exec uint64) {
	b.call("cudaStreamBeginCapture", on(stream), func(c *events.Call) { c.Tag = 1 })
	b.call("cudaLaunchKernel", on(stream))
	b.call("cudaLaunchKernel", on(stream))
	b.call("cuStreamEndCapture", with{events.RoleStream: stream, events.RoleGraph: graph}, within(b.t, "cudaStreamEndCapture"))
	b.call("cudaStreamEndCapture", with{events.RoleStream: stream, events.RoleGraph: graph})
	if exec != 0 {
		b.call("cudaGraphInstantiate", with{events.RoleGraph: graph, events.RoleExec: exec})
	}
}

// A graph has its whole life in one row.
func TestGraphs(t *testing.T) {
	b := newBench(t)
	capture(b, 0x50, 0x91, 0xe1)
	b.call("cudaGraphDestroy", with{events.RoleGraph: 0x91})
	b.call("cudaGraphUpload", with{events.RoleExec: 0xe1, events.RoleStream: 0x50})
	for range 5 {
		b.call("cudaGraphLaunch", with{events.RoleExec: 0xe1, events.RoleStream: 0x50})
		b.call("cuGraphLaunch", with{events.RoleExec: 0xe1, events.RoleStream: 0x50}, within(t, "cudaGraphLaunch"))
	}
	last := b.at
	b.call("cudaGraphExecUpdate", with{events.RoleExec: 0xe1, events.RoleGraph: 0x92})
	b.call("cudaGraphExecUpdate", with{events.RoleExec: 0xe1, events.RoleGraph: 0x92}, failing(910))
	b.call("cudaGraphExecDestroy", with{events.RoleExec: 0xe1})
	destroyed := b.at
	s := b.state()
	if len(s.Graphs.First) != 1 || s.Graphs.All != 1 {
		t.Fatalf("%+v", s.Graphs)
	}
	want := tick.Graph{Number: s.Graphs.First[0].Number, Exec: 0xe1, Graph: 0x91, Device: 1, Captured: began, CaptureNS: 5000, CaptureTID: 1, CaptureStream: 0x50,
		CaptureMode: 1, CaptureLaunches: 2, Cold: true, Instantiated: began + 5000, InstantiateNS: 1000,
		Launches: 5, LastLaunch: last - 2000, Updates: 2, UpdateFails: 1, Uploads: 1, Destroyed: destroyed}
	if got := s.Graphs.First[0]; got != want {
		t.Errorf("%+v\nwant %+v", got, want)
	}
	if x := s.Streams.First[0]; x.Captures != 1 || x.Launches != 5 {
		t.Errorf("what is captured does not run: %+v", x)
	}
}

// Captures that fail or are interrupted have the right state.
func TestCaptures(t *testing.T) {
	for _, tt := range []struct {
		name string
		do   func(b *bench)
		want func(s *tick.State) bool
	}{
		{"again and again in one stream", func(b *bench) {
			for i := range uint64(4) {
				capture(b, 0x50, 0x91+i, 0xe1+i)
				b.call("cudaGraphLaunch", with{events.RoleExec: 0xe1 + i, events.RoleStream: 0x50})
			}
		}, func(s *tick.State) bool { return s.Graphs.All == 4 && s.Streams.First[0].Captures == 4 }},
		{"after a launch it is not cold", func(b *bench) {
			b.call("cudaLaunchKernel", on(0x50))
			capture(b, 0x50, 0x91, 0xe1)
		}, func(s *tick.State) bool { return !s.Graphs.First[0].Cold }},
		{"that fails", func(b *bench) {
			b.call("cudaStreamBeginCapture", on(0x50))
			b.call("cudaStreamEndCapture", on(0x50), failing(901))
		}, func(s *tick.State) bool { return s.Graphs.All == 1 && s.Graphs.First[0].CaptureFailed }},
		{"that is not made executable", func(b *bench) { capture(b, 0x50, 0x91, 0) },
			func(s *tick.State) bool { return s.Graphs.First[0].Exec == 0 && s.Graphs.First[0].Graph == 0x91 }},
		{"whose instantiation fails", func(b *bench) {
			capture(b, 0x50, 0x91, 0)
			b.call("cudaGraphInstantiate", with{events.RoleGraph: 0x91}, failing(2))
		}, func(s *tick.State) bool { return s.Graphs.First[0].InstantiateFails == 1 && s.Memory.OOMs == 0 }},
		{"made executable twice", func(b *bench) {
			capture(b, 0x50, 0x91, 0xe1)
			b.call("cudaGraphInstantiate", with{events.RoleGraph: 0x91, events.RoleExec: 0xe2})
		}, func(s *tick.State) bool {
			return s.Graphs.All == 2 && s.Graphs.First[0].Captured == s.Graphs.First[1].Captured && s.Graphs.First[0].Number != s.Graphs.First[1].Number
		}},
		{"of before the attach", func(b *bench) {
			b.call("cudaGraphLaunch", with{events.RoleExec: 0xe1, events.RoleStream: 0x50})
		}, func(s *tick.State) bool {
			return s.Graphs.First[0].Launches == 1 && s.Graphs.First[0].Instantiated == 0
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t)
			tt.do(b)
			if s := b.state(); !tt.want(&s) {
				t.Errorf("%+v", s)
			}
		})
	}
}

// Ranks of two processes find each other by the ID, also after a split.
func TestComms(t *testing.T) {
	b := newBench(t)
	rank := func(pid uint32) func(*events.Call) { return func(c *events.Call) { c.PID = pid } }
	for r := range uint64(2) {
		pid := rank(uint32(r + 1))
		b.call("ncclCommInitRank", with{events.RoleComm: 0xc0 + r, events.RoleCommID: 0xabc, events.RoleRanks: 2, events.RoleRank: r}, pid)
		for range 3 {
			b.call("ncclAllReduce", with{events.RoleComm: 0xc0 + r, events.RoleElements: 100, events.RoleDatatype: 7, events.RoleStream: 0x50}, pid)
		}
		b.call("ncclCommSplit", with{events.RoleComm: 0xd0 + r, events.RoleParent: 0xc0 + r, events.RoleColor: 4}, pid)
		b.call("ncclSend", with{events.RoleComm: 0xd0 + r, events.RoleElements: 8, events.RoleDatatype: 6, events.RoleStream: 0x50}, pid, failing(1))
	}
	b.call("ncclCommAbort", with{events.RoleComm: 0xc1}, rank(2))
	b.call("ncclAllReduce", with{events.RoleComm: 0xee, events.RoleElements: 1, events.RoleDatatype: 0, events.RoleStream: 0x50}, rank(2))
	var to tick.Tick
	to.States = b.tr.Tick(to.Processes, to.Ops)
	if len(to.States) != 2 {
		t.Fatalf("%d states", len(to.States))
	}
	one, two := to.States[0].Comms.First, to.States[1].Comms.First
	if c := one[0]; c.ID != 0xabc || c.Rank != 0 || c.Ranks != 2 || c.Seq != 3 || c.Last.Bytes != 400 || c.Began == 0 || c.State != tick.CommActive {
		t.Errorf("%+v", c)
	}
	if e := to.States[0].Entered; len(e) != 3 || e[2].Comm != one[0].Number || one[0].Collectives != 3 || one[1].Collectives != 0 {
		t.Errorf("entered %+v; %+v", e, one)
	}
	if c := one[1]; c.Seq != 1 || c.Failed != 1 || c.Last.Bytes != 16 || c.ID == 0 || c.ID == 0xabc || c.ID != two[2].ID && c.ID != two[1].ID {
		t.Errorf("split: %+v, the other rank has %+v", c, two)
	}
	if c := two[0]; c.State != tick.CommAborted || c.Rank != 1 || c.Ended == 0 {
		t.Errorf("%+v", c)
	}
	old := two[1]
	if two[2].Began == 0 {
		old = two[2]
	}
	if old.Handle != 0xee || old.Began != 0 || old.Rank >= 0 || old.Seq != 1 {
		t.Errorf("of before the attach: %+v", old)
	}
}

// Ranks are compared by the number of their collectives: a collective without a record makes it
// inexact, and the state says so.
func TestCollectivesWithoutRecords(t *testing.T) {
	for _, tt := range []struct {
		name    string
		counted uint64 // by the kernel
		weight  uint32
		want    bool
	}{{"all", 2, 1, false}, {"one is lost", 3, 1, true}, {"thinned", 9, 8, true}} {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t)
			b.call("ncclCommInitRank", with{events.RoleComm: 0xc0, events.RoleCommID: 0xabc, events.RoleRanks: 2, events.RoleRank: 1})
			b.call("ncclAllReduce", with{events.RoleComm: 0xc0})
			c := b.call("ncclAllReduce", with{events.RoleComm: 0xc0}, func(c *events.Call) { c.Weight = tt.weight })
			for range 2 {
				b.tr.Tick(nil, []tick.Op{{PID: 1, Op: c.Op, Sum: tick.Counts{Calls: tt.counted, Done: tt.counted}}})
			}
			if s := b.state(); s.Comms.First[0].Inexact != tt.want {
				t.Errorf("%+v, want inexact: %v", s.Comms.First[0], tt.want)
			}
		})
	}
}

// The direction of a copy comes from the call, or else from its addresses.
func TestCopies(t *testing.T) {
	const gpu, pinned, page = 4 << 30, 7 << 40, 9 << 40
	copied := func(kind, dst, src uint64) with {
		return with{events.RoleBytes: 10, events.RoleDst: dst, events.RoleSrc: src, events.RoleKind: kind}
	}
	type key struct {
		dir  tick.CopyDir
		host tick.HostKind
	}
	for _, tt := range []struct {
		name string
		late bool
		op   string
		w    with
		want key
	}{
		{"to the device, pinned", false, "cudaMemcpy", copied(1, gpu, pinned), key{tick.CopyHostToDevice, tick.HostPinned}},
		{"to the device, inside of pinned", false, "cudaMemcpy", copied(1, gpu, pinned+5), key{tick.CopyHostToDevice, tick.HostPinned}},
		{"to the device, pageable", false, "cudaMemcpy", copied(1, gpu, page), key{tick.CopyHostToDevice, tick.HostPageable}},
		{"attached late it may be pinned", true, "cudaMemcpy", copied(1, gpu, page), key{tick.CopyHostToDevice, tick.HostUnknown}},
		{"from the device", false, "cudaMemcpy", copied(2, page, gpu), key{tick.CopyDeviceToHost, tick.HostPageable}},
		{"on the device", false, "cudaMemcpy", copied(3, gpu, gpu+100), key{tick.CopyDeviceToDevice, tick.HostNone}},
		{"on the host", false, "cudaMemcpy", copied(0, page, pinned), key{tick.CopyHostToHost, tick.HostPageable}},
		{"default, to the device", false, "cudaMemcpy", copied(4, gpu+7, pinned), key{tick.CopyHostToDevice, tick.HostPinned}},
		{"default, from the device", false, "cudaMemcpy", copied(4, page, gpu+7), key{tick.CopyDeviceToHost, tick.HostPageable}},
		{"default, on the device", false, "cudaMemcpy", copied(4, gpu, gpu+7), key{tick.CopyDeviceToDevice, tick.HostNone}},
		{"default, attached late", true, "cudaMemcpy", copied(4, page, gpu+7), key{tick.CopyUnknown, tick.HostUnknown}},
		{"peers", false, "cudaMemcpyPeer", with{events.RoleBytes: 10, events.RoleDst: gpu, events.RoleSrc: gpu}, key{tick.CopyPeer, tick.HostNone}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t)
			if tt.late {
				b = late(t)
			}
			b.call("cudaMalloc", alloc(gpu, 1000))
			b.call("cudaMallocHost", alloc(pinned, 1000))
			b.call(tt.op, tt.w)
			b.call("cuMemcpyHtoD", with{events.RoleBytes: 10}, within(t, tt.op)) // the same
			s := b.state()
			want := tick.Copy{Dir: tt.want.dir, Host: tt.want.host, Count: 1, Bytes: 10, NS: 1000}
			if len(s.Copies) != 1 || s.Copies[0] != want {
				t.Errorf("%+v, want %+v", s.Copies, want)
			}
		})
	}
}

func TestErrors(t *testing.T) {
	b := newBench(t)
	for range 3 {
		b.call("cudaLaunchKernel", on(0), failing(700))
	}
	b.call("cudaEventQuery", with{events.RoleEvent: 3}, failing(600))
	b.call("cudaMalloc", alloc(0, 5), failing(2))
	e := b.state().Errors
	if e.All != 2 || e.First[0].Count != 3 || e.First[0].Name() != "cudaErrorIllegalAddress" || e.First[1].Name() != "cudaErrorMemoryAllocation" {
		t.Errorf("%+v", e)
	}
}

// A thread that has ended leaves its room to others, and its devices to none.
func TestEndedThreads(t *testing.T) {
	choose := func(b *bench, tid uint32, device uint64) {
		b.t.Helper()
		b.call("cudaSetDevice", with{events.RoleDevice: device}, onThread(tid))
	}
	end := func(b *bench, tids ...uint32) {
		var threads []tick.Thread
		for _, tid := range tids {
			threads = append(threads, tick.Thread{PID: 1, TID: tid, Ended: true, Until: b.at})
		}
		b.tr.Threads(threads)
	}
	for _, tt := range []struct {
		name string
		do   func(b *bench)
		want int16 // device of thread 7
	}{
		{"many threads before", func(b *bench) {
			var all []uint32
			for i := range uint32(maxThreads) {
				all = append(all, 100+i)
				choose(b, 100+i, 1)
			}
			end(b, all...)
			choose(b, 7, 1)
			choose(b, 8, 1)
		}, 2},
		{"another with its number", func(b *bench) {
			choose(b, 7, 3)
			end(b, 7)
		}, 1},
		{"another with its number, which has chosen", func(b *bench) {
			choose(b, 7, 3)
			before := b.at
			choose(b, 7, 2)
			b.tr.Threads([]tick.Thread{{PID: 1, TID: 7, Ended: true, Until: before}})
		}, 3},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t)
			tt.do(b)
			if c := b.call("cudaDeviceSynchronize", nil, onThread(7)); c.Device != tt.want {
				t.Errorf("device %d, want %d", c.Device, tt.want)
			}
		})
	}
}
