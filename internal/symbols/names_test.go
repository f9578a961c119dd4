package symbols

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"testing"
	"time"

	"ingero/internal/testkit"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

// call returns a call whose values have roles.
func call(t testing.TB, name string, pid uint32, at int64, values map[events.Role]uint64) events.Call {
	t.Helper()
	c := events.Call{Op: testkit.Op(name), PID: pid, TID: pid, Start: at, Duration: 10, Weight: 1}
	for i, k := range c.Op.Row().Keep {
		role, _ := events.SplitRole(k)
		c.Args[i] = values[role]
	}
	return c
}

func launch(t testing.TB, pid uint32, at int64, handle uint64) events.Call {
	return call(t, "cudaLaunchKernel", pid, at, map[events.Role]uint64{events.RoleFunc: handle})
}

func register(t testing.TB, pid uint32, at int64, handle, name, binary uint64) events.Call {
	return call(t, "__cudaRegisterFunction", pid, at, map[events.Role]uint64{events.RoleFunc: handle, events.RoleName: name, events.RoleLibrary: binary})
}

// memory is a Reader: names by address, and symbols of functions.
type memory struct {
	mu      sync.Mutex
	names   map[uint64]string
	symbols map[uint64]string
	gone    map[uint32]bool
	asked   int
}

func (m *memory) read(from map[uint64]string, pid uint32, at []uint64) ([]string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.asked += len(at)
	if m.gone[pid] {
		return nil, ErrEnded
	}
	out := make([]string, len(at))
	for i, a := range at {
		out[i] = from[a]
	}
	return out, nil
}

func (m *memory) Strings(pid uint32, _ int64, at []uint64) ([]string, error) {
	return m.read(m.names, pid, at)
}

func (m *memory) Symbols(pid uint32, _ int64, at []uint64) ([]string, error) {
	return m.read(m.symbols, pid, at)
}

// play plays batches, waits for all names after each, and returns all reported functions and the
// figures.
func play(t *testing.T, n *Names, batches []tick.Batch) ([]events.Function, []tick.Launches) {
	t.Helper()
	var reported []events.Function
	for i := range batches {
		b := &batches[i]
		reported = append(reported, b.Functions...)
		reported = append(reported, n.Batch(b.Texts, b.Procs, b.Functions, b.Calls)...)
		reported = append(reported, n.Settle(context.Background())...)
	}
	return reported, n.Tick(time.Unix(3600, 0), true)
}

// sums adds up launches by name or reason.
func sums(all []tick.Launches) map[string]uint64 {
	out := map[string]uint64{}
	for _, l := range all {
		total := l.Pending
		for _, f := range l.Top {
			out[f.Function] += f.Launches
			total += f.Launches
		}
		for _, u := range l.Unnamed {
			out[u.Why.String()] += u.Launches
			total += u.Launches
		}
		if l.Pending > 0 {
			out["pending"] += l.Pending
		}
		if total != l.Launches {
			out[fmt.Sprintf("does not add up: %+v", l)]++
		}
	}
	return out
}

// namesCase is a sequence of batches, and the expected figures.
type namesCase struct {
	name     string
	batches  []tick.Batch
	want     map[string]uint64 // launches by name or reason
	reported int
}

func namesCases(t *testing.T) []namesCase {
	fork := func(at int64, pid, child uint32) tick.ProcEvent {
		return tick.ProcEvent{Kind: tick.ProcForked, Time: at, PID: pid, Peer: child}
	}
	exec := func(at int64, pid uint32) tick.ProcEvent {
		return tick.ProcEvent{Kind: tick.ProcExeced, Time: at, PID: pid}
	}
	exit := func(at int64, pid uint32) tick.ProcEvent {
		return tick.ProcEvent{Kind: tick.ProcExited, Time: at, PID: pid}
	}
	get := func(pid uint32, at int64, handle uint64) events.Call {
		return call(t, "cuModuleGetFunction", pid, at, map[events.Role]uint64{events.RoleFunc: handle, events.RoleName: 0xdead, events.RoleModule: 5})
	}
	text := func(pid uint32, at int64, s string) events.Text {
		return events.Text{Time: at, TID: pid, PID: pid, Op: testkit.Op("cuModuleGetFunction"), Text: s}
	}
	inner := launch(t, 1, 21, 55)
	inner.Op, inner.Parent, inner.Flags = testkit.Op("cuLaunchKernel"), testkit.Op("cudaLaunchKernel"), events.CallNested|events.CallUnmeasured|events.CallInherited
	graph := call(t, "cudaGraphLaunch", 1, 30, map[events.Role]uint64{events.RoleExec: 4})
	host := call(t, "cudaLaunchHostFunc", 1, 31, nil)
	heavy := launch(t, 1, 20, 1)
	heavy.Weight = 16
	failed := get(1, 5, 44)
	failed.Flags = events.CallFailed
	unload := func(pid uint32, at int64) events.Call {
		return call(t, "cuModuleUnload", pid, at, map[events.Role]uint64{events.RoleModule: 5})
	}
	kernelText := func(at int64, s string) events.Text {
		return events.Text{Time: at, TID: 1, PID: 1, Op: testkit.Op("cuLibraryGetKernel"), Text: s}
	}
	kernel := func(at int64) events.Call {
		return call(t, "cuLibraryGetKernel", 1, at, map[events.Role]uint64{events.RoleKernel: 60, events.RoleName: 0xdead, events.RoleLibrary: 3})
	}
	alias := func(at int64) events.Call {
		return call(t, "cuKernelGetFunction", 1, at, map[events.Role]uint64{events.RoleFunc: 61, events.RoleKernel: 60})
	}
	drop := func(at int64) events.Call {
		return call(t, "cuLibraryUnload", 1, at, map[events.Role]uint64{events.RoleLibrary: 3})
	}
	return []namesCase{
		{"registered", []tick.Batch{{Calls: []events.Call{register(t, 1, 10, 1, 100, 3), launch(t, 1, 20, 1), launch(t, 1, 21, 1)}}},
			map[string]uint64{"_Z1av": 2}, 1},
		{"thinned", []tick.Batch{{Calls: []events.Call{register(t, 1, 10, 1, 100, 3), heavy}}}, map[string]uint64{"_Z1av": 16}, 1},
		{"what the launch made, graphs and host functions are no launches of a kernel",
			[]tick.Batch{{Calls: []events.Call{register(t, 1, 10, 1, 100, 3), launch(t, 1, 20, 1), inner, graph, host}}}, map[string]uint64{"_Z1av": 1}, 1},
		{"symbol", []tick.Batch{{Calls: []events.Call{launch(t, 1, 20, 7), launch(t, 1, 22, 7)}}}, map[string]uint64{"_Z3symv": 2}, 1},
		{"none", []tick.Batch{{Calls: []events.Call{launch(t, 1, 20, 8)}}}, map[string]uint64{events.NoNameUnseen.String(): 1}, 1},
		{"unreadable", []tick.Batch{{Calls: []events.Call{register(t, 1, 10, 1, 300, 3), launch(t, 1, 20, 1)}}},
			map[string]uint64{events.NoNameUnread.String(): 1}, 1},
		{"ended", []tick.Batch{{Calls: []events.Call{register(t, 9, 10, 1, 100, 3), launch(t, 9, 20, 1)}}}, map[string]uint64{events.NoNameEnded.String(): 1}, 1},
		{"text", []tick.Batch{{Texts: []events.Text{text(1, 5, "one"), text(1, 7, "two")}, Calls: []events.Call{get(1, 5, 40), get(1, 7, 41), launch(t, 1, 9, 41), launch(t, 1, 9, 40), launch(t, 1, 9, 40)}}},
			map[string]uint64{"one": 2, "two": 1}, 2},
		{"a lost text is nobody else's", []tick.Batch{{Texts: []events.Text{text(1, 5, "one")}, Calls: []events.Call{get(1, 5, 40), get(1, 7, 41), launch(t, 1, 9, 41), launch(t, 1, 9, 40)}}},
			map[string]uint64{"one": 1, events.NoNameUnread.String(): 1}, 2},
		{"a failed look-up means nothing", []tick.Batch{{Texts: []events.Text{text(1, 5, "one")}, Calls: []events.Call{failed, launch(t, 1, 9, 44)}}},
			map[string]uint64{events.NoNameUnseen.String(): 1}, 1},
		{"a handle again", []tick.Batch{{Texts: []events.Text{text(1, 5, "one"), text(1, 12, "two")},
			Calls: []events.Call{get(1, 5, 40), launch(t, 1, 9, 40), get(1, 12, 40), launch(t, 1, 15, 40)}}},
			map[string]uint64{"one": 1, "two": 1}, 2},
		{"unloaded", []tick.Batch{{Texts: []events.Text{text(1, 5, "one")}, Calls: []events.Call{get(1, 5, 40), launch(t, 1, 9, 40), unload(1, 10), launch(t, 1, 15, 40)}}},
			map[string]uint64{"one": 1, events.NoNameUnseen.String(): 1}, 2},
		{"handle of a handle", []tick.Batch{{Calls: []events.Call{register(t, 1, 10, 1, 100, 3),
			call(t, "__cudaGetKernel", 1, 11, map[events.Role]uint64{events.RoleKernel: 60, events.RoleFunc: 1}),
			call(t, "cuKernelGetFunction", 1, 12, map[events.Role]uint64{events.RoleFunc: 61, events.RoleKernel: 60}),
			launch(t, 1, 20, 60), launch(t, 1, 21, 61)}}}, map[string]uint64{"_Z1av": 2}, 2},
		{"a handle of a handle again", []tick.Batch{{Texts: []events.Text{kernelText(5, "one"), kernelText(11, "two")},
			Calls: []events.Call{kernel(5), alias(6), alias(7), launch(t, 1, 9, 61), drop(10), kernel(11), alias(12), alias(13), launch(t, 1, 15, 61)}}},
			map[string]uint64{"one": 1, "two": 1}, 2},
		{"the same handle", []tick.Batch{{Calls: []events.Call{register(t, 1, 10, 1, 100, 3),
			call(t, "__cudaGetKernel", 1, 11, map[events.Role]uint64{events.RoleKernel: 1, events.RoleFunc: 1}), launch(t, 1, 20, 1)}}},
			map[string]uint64{"_Z1av": 1}, 1},
		{"forked", []tick.Batch{{Calls: []events.Call{register(t, 1, 10, 1, 100, 3)}, Procs: []tick.ProcEvent{fork(15, 1, 2)}},
			{Calls: []events.Call{launch(t, 2, 20, 1)}}}, map[string]uint64{"_Z1av": 1}, 1},
		{"the fork is reported late", []tick.Batch{{Calls: []events.Call{register(t, 1, 10, 1, 100, 3), launch(t, 2, 20, 1)}, Procs: []tick.ProcEvent{fork(15, 1, 2)}}},
			map[string]uint64{"_Z1av": 1}, 1},
		{"a child means what its parent did", []tick.Batch{{Procs: []tick.ProcEvent{fork(15, 1, 2)}, Calls: []events.Call{register(t, 1, 10, 1, 100, 3), launch(t, 2, 16, 8)}},
			{Calls: []events.Call{register(t, 1, 18, 1, 200, 3), launch(t, 2, 20, 1), launch(t, 1, 20, 1)}}},
			map[string]uint64{"_Z1av": 1, "_Z1bv": 1, events.NoNameUnseen.String(): 1}, 3},
		{"another program", []tick.Batch{{Calls: []events.Call{register(t, 1, 10, 1, 100, 3), launch(t, 1, 12, 1)}},
			{Procs: []tick.ProcEvent{exec(15, 1)}, Calls: []events.Call{launch(t, 1, 14, 1), launch(t, 1, 20, 1)}}},
			map[string]uint64{"_Z1av": 2, events.NoNameUnseen.String(): 1}, 2},
		{"the exec is reported late", []tick.Batch{{Calls: []events.Call{register(t, 1, 10, 1, 100, 3), launch(t, 1, 12, 1), register(t, 1, 18, 1, 200, 3)}},
			{Procs: []tick.ProcEvent{exec(15, 1)}, Calls: []events.Call{launch(t, 1, 20, 1)}}},
			map[string]uint64{"_Z1av": 1, "_Z1bv": 1}, 2},
		{"a number again", []tick.Batch{{Calls: []events.Call{register(t, 1, 10, 1, 100, 3), launch(t, 1, 12, 1)}, Procs: []tick.ProcEvent{exit(15, 1)}},
			{Calls: []events.Call{launch(t, 1, 20, 1)}}}, map[string]uint64{"_Z1av": 1, events.NoNameUnseen.String(): 1}, 2},
	}
}

func TestNames(t *testing.T) {
	mem := func() *memory {
		return &memory{names: map[uint64]string{100: "_Z1av", 200: "_Z1bv"}, symbols: map[uint64]string{7: "_Z3symv"}, gone: map[uint32]bool{9: true}}
	}
	for _, tt := range namesCases(t) {
		t.Run(tt.name, func(t *testing.T) {
			n := New(mem())
			defer n.Close()
			reported, figures := play(t, n, tt.batches)
			if got := sums(figures); !maps.Equal(got, tt.want) {
				t.Errorf("live: %v, want %v", got, tt.want)
			}
			if len(reported) != tt.reported {
				t.Errorf("reported %+v, want %d", reported, tt.reported)
			}
			// The reported functions give each call the name that the figures have. A replay of all
			// in one batch gives the same figures.
			table, byCall := &Functions{}, map[string]uint64{}
			table.Add(reported)
			again := tick.Batch{Functions: reported}
			for i := range tt.batches {
				for _, c := range tt.batches[i].Calls {
					if Launches(&c) {
						f, ok := table.Lookup(&c)
						if !ok {
							t.Errorf("nothing was reported of the launch at %d", c.Start)
						}
						byCall[f.Name+f.Why.String()] += uint64(c.Weight)
					}
				}
				again.Calls, again.Procs = append(again.Calls, tt.batches[i].Calls...), append(again.Procs, tt.batches[i].Procs...)
			}
			if !maps.Equal(byCall, tt.want) {
				t.Errorf("by call: %v, want %v", byCall, tt.want)
			}
			replay := New(nil)
			defer replay.Close()
			again.Texts = nil
			if _, figures := play(t, replay, []tick.Batch{again}); !maps.Equal(sums(figures), tt.want) {
				t.Errorf("replay: %v, want %v", sums(figures), tt.want)
			}
		})
	}
}

// Only launched functions are read, except for a process's first ones.
func TestNamesAreReadWhenLaunched(t *testing.T) {
	m := &memory{names: map[uint64]string{}}
	var calls []events.Call
	const many = 20_000
	for i := range uint64(many) {
		m.names[1000+i] = fmt.Sprintf("_Z%dk%d", i, i)
		calls = append(calls, register(t, 1, int64(i), 1+i, 1000+i, 3))
	}
	n := New(m)
	defer n.Close()
	calls = append(calls, launch(t, 1, many, many))
	reported, _ := play(t, n, []tick.Batch{{Calls: calls}})
	if len(reported) != 1 || reported[0].Name != m.names[1000+many-1] {
		t.Errorf("reported %+v", reported)
	}
	if m.asked != eagerNames+1 {
		t.Errorf("%d names were read, want %d", m.asked, eagerNames+1)
	}
}

// The tables are bounded, and a launch beyond them has the reason NoNameFull.
func TestNamesAreBounded(t *testing.T) {
	n := New(&memory{symbols: map[uint64]string{}})
	defer n.Close()
	b := tick.Batch{}
	for i := range uint64(maxRegs + 10) {
		b.Calls = append(b.Calls, register(t, 1, 1, 1+i, 1, 3))
	}
	b.Calls = append(b.Calls, launch(t, 1, 5, maxRegs+5))
	for i := range uint64(maxFuncs + 10) {
		b.Calls = append(b.Calls, launch(t, 2, 5, 1+i))
	}
	_, figures := play(t, n, []tick.Batch{b})
	got := sums(figures)
	if got[events.NoNameFull.String()] != 1+10 || got[events.NoNameUnseen.String()] != maxFuncs || len(got) != 2 {
		t.Errorf("%v", got)
	}
	if n.regs != maxRegs {
		t.Errorf("%d registrations are kept, want %d", n.regs, maxRegs)
	}
	end := tick.Batch{Procs: []tick.ProcEvent{{Kind: tick.ProcExited, Time: 9, PID: 1}, {Kind: tick.ProcExited, Time: 9, PID: 2}}}
	if _, figures = play(t, n, []tick.Batch{end}); len(figures) != 2 || n.regs != 0 || len(n.procs) != 0 {
		t.Errorf("after their end: %d processes, %d registrations, %d figures", len(n.procs), n.regs, len(figures))
	}
}

// Names of ended processes are evicted to make room.
func TestWordsAreForgotten(t *testing.T) {
	n := New(nil)
	defer n.Close()
	for i := range maxWords - 1 {
		n.words.id(fmt.Sprint("w", i))
	}
	n.Batch(nil, nil, []events.Function{{PID: 1, Handle: 1, Name: "kept"}}, []events.Call{launch(t, 1, 5, 1)})
	if n.words.id("none") != 0 {
		t.Error("there is no bound")
	}
	n.Tick(time.Unix(9, 0), false)
	if len(n.words.ids) != 1 || n.words.text(n.words.ids["kept"]) != "kept" || n.words.bytes != len("kept") {
		t.Errorf("%d names are left", len(n.words.ids))
	}
	if id := n.words.id("new"); id == 0 || n.words.text(id) != "new" {
		t.Error("there is no room")
	}
}

// In the steady state a launch costs one table lookup.
func BenchmarkNames(b *testing.B) {
	n := New(&memory{names: map[uint64]string{}, symbols: map[uint64]string{}})
	defer n.Close()
	var warm, calls []events.Call
	for i := range uint64(300) {
		warm = append(warm, register(b, 1, 1, 16*i+1, 1, 3))
	}
	for i := range uint64(4096) {
		calls = append(calls, launch(b, 1, 5, 16*(i*7919%300)+1))
	}
	n.Batch(nil, nil, nil, warm)
	n.Batch(nil, nil, nil, calls)
	n.Settle(context.Background())
	b.ReportAllocs()
	for b.Loop() {
		n.Batch(nil, nil, nil, calls)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/4096, "ns/launch")
}
