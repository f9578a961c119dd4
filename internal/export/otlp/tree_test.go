package otlp

import (
	"fmt"
	"strings"
	"testing"

	"ingero/internal/stats"
	"ingero/internal/testkit"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

// call is a call of thread 7 of process 4, in us.
func call(name string, start, duration int64, parent string) events.Call {
	c := events.Call{Op: testkit.Op(name), Start: start * 1000, Duration: duration * 1000, OnCPU: duration * 1000, PID: 4, TID: 7, Weight: 1}
	if parent != "" {
		c.Parent, c.Flags = testkit.Op(parent), events.CallNested
	}
	return c
}

// Calls are nested correctly, whatever records are missing.
func TestTrees(t *testing.T) {
	other := call("cudaMalloc", 0, 9, "cudaMalloc")
	other.PID = 5
	for _, tt := range []struct {
		name  string
		calls []events.Call
		want  string // trees: the outer call and its inner ones
	}{
		{"alone", []events.Call{call("cudaMalloc", 0, 5, ""), call("cudaFree", 6, 1, "")}, "cudaMalloc; cudaFree"},
		{"one inside", []events.Call{call("cuMemAlloc", 1, 3, "cudaMalloc"), call("cudaMalloc", 0, 5, "")}, "cudaMalloc(cuMemAlloc)"},
		{"two inside", []events.Call{call("cuMemcpy", 1, 1, "cudaMemcpy"), call("cuMemcpyAsync", 3, 1, "cudaMemcpy"), call("cudaMemcpy", 0, 5, "")},
			"cudaMemcpy(cuMemcpy cuMemcpyAsync)"},
		{"deep", []events.Call{call("cuMemAlloc", 2, 1, "cudaMalloc"), call("cudaMalloc", 1, 3, "ncclCommInitRank"), call("ncclCommInitRank", 0, 9, "")},
			"ncclCommInitRank(cuMemAlloc<cudaMalloc cudaMalloc)"},
		{"the outer one has no record", []events.Call{call("cuMemAlloc", 1, 3, "cudaMalloc"), call("cudaFree", 6, 1, "")}, "cuMemAlloc; cudaFree"},
		{"so has an earlier one", []events.Call{call("cuMemAlloc", 1, 3, "cudaMalloc"), call("cuMemFree", 7, 1, "cudaFree"), call("cudaFree", 6, 3, "")},
			"cuMemAlloc; cudaFree(cuMemFree)"},
		{"a number again", []events.Call{other, call("cudaFree", 6, 1, "")}, "cudaMalloc; cudaFree"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var got []string
			tell := func(outer *events.Call, inside []events.Call) {
				s := outer.Op.String()
				var in []string
				for i := range inside {
					name := inside[i].Op.String()
					if j := parentOf(inside, i); j >= 0 {
						name += "<" + inside[j].Op.String()
					}
					in = append(in, name)
				}
				if len(in) > 0 {
					s += "(" + strings.Join(in, " ") + ")"
				}
				got = append(got, s)
			}
			var x trees
			for i := range tt.calls {
				x.add(&tt.calls[i], tell)
			}
			x.tidy(true, tell)
			if s := strings.Join(got, "; "); s != tt.want {
				t.Errorf("got %s, want %s", s, tt.want)
			}
			if len(x.waiting) != 0 {
				t.Errorf("%d threads are kept", len(x.waiting))
			}
		})
	}
}

// Waiting calls are bounded, per thread and by threads, and none is lost.
func TestTreesAreBounded(t *testing.T) {
	var x trees
	n := 0
	count := func(_ *events.Call, inside []events.Call) { n += 1 + len(inside) }
	for i := range int64(1000) {
		c := call("cuMemAlloc", i, 1, "cudaMalloc")
		x.add(&c, count)
	}
	if got := len(x.waiting[7].calls); got > maxInner {
		t.Errorf("%d calls of a thread wait", got)
	}
	for i := range uint32(2 * maxWaiting) {
		c := call("cuMemAlloc", 1, 1, "cudaMalloc")
		c.TID = 100 + i
		x.add(&c, count)
	}
	if got := len(x.waiting); got > maxWaiting {
		t.Errorf("%d threads wait", got)
	}
	x.tidy(true, count)
	if n != 1000+2*maxWaiting {
		t.Errorf("%d calls came out, want %d", n, 1000+2*maxWaiting)
	}
}

// median is a tick with an operation's median duration, in us.
func median(name string, us int64) *tick.Tick {
	d := &stats.Sketch{}
	d.Add(us*1000, 100)
	return &tick.Tick{Ops: []tick.Op{{PID: 4, Op: testkit.Op(name), Dur: d, DurLast: d}}}
}

// The calls that become spans are failed ones, those slow for their operation, and one of each
// kind.
func TestChoose(t *testing.T) {
	x := newChooser()
	if c := call("cudaFree", 0, 1, ""); x.look(&c, nil) == nil {
		t.Error("the first call, before any tick, is no sample")
	}
	x.tick(median("cudaMalloc", 200))
	chosen := map[string]int{}
	take := func(g *group) {
		if g != nil {
			chosen[g.reason+" "+g.outer().Op.String()]++
		}
	}
	look := func(c events.Call, inside ...events.Call) { take(x.look(&c, inside)) }
	failed := call("cuMemFree", 0, 1, "")
	failed.Flags |= events.CallFailed
	inner := call("cuMemAlloc", 0, 1, "cudaMalloc")
	inner.Flags |= events.CallFailed
	look(call("cudaMalloc", 0, 300, "")) // a sample
	look(call("cudaMalloc", 0, 300, "")) // below twice the median
	look(call("cudaMalloc", 0, 50, ""))
	look(failed)
	look(call("cudaMalloc", 0, 1, ""), inner)
	for i := range int64(2 * mostSlow) {
		look(call("cudaMalloc", 0, 400+i, ""))
	}
	least := int64(1 << 62)
	for _, g := range x.tick(median("cudaMalloc", 200)) {
		take(g)
		least = min(least, g.outer().Duration)
	}
	want := map[string]int{"sampled cudaMalloc": 1, "failed cuMemFree": 1, "failed cudaMalloc": 1, "slow cudaMalloc": mostSlow}
	if fmt.Sprint(chosen) != fmt.Sprint(want) {
		t.Errorf("got %v, want %v", chosen, want)
	}
	if least != (400+mostSlow)*1000 {
		t.Errorf("the shortest of the slow takes %d ns: they are not the slowest", least)
	}
	for range 2 * mostFailed {
		x.look(&failed, nil)
	}
	if x.left != mostFailed {
		t.Errorf("%d failed calls are left out, want %d", x.left, mostFailed)
	}
}

// A failed free is a double free if the first one is known, and the pointer was not allocated
// since.
func TestDoubleFree(t *testing.T) {
	at := func(name string, ptr uint64, failed bool) events.Call {
		c := call(name, 0, 1, "")
		for i := range c.Args { // at the index of any row
			c.Args[i] = ptr
		}
		if failed {
			c.Flags |= events.CallFailed
		}
		return c
	}
	for _, tt := range []struct {
		name  string
		calls []events.Call
		want  bool // of the last call
	}{
		{"twice", []events.Call{at("cuMemAlloc", 8, false), at("cuMemFree", 8, false), at("cuMemFree", 8, true)}, true},
		{"by another function", []events.Call{at("cudaFree", 8, false), at("cuMemFreeAsync", 8, true)}, true},
		{"of what was never given", []events.Call{at("cuMemFree", 8, true)}, false},
		{"of another", []events.Call{at("cuMemFree", 8, false), at("cuMemFree", 16, true)}, false},
		{"given again", []events.Call{at("cuMemFree", 8, false), at("cuMemAlloc", 8, false), at("cuMemFree", 8, true)}, false},
		{"not given again", []events.Call{at("cuMemFree", 8, false), at("cuMemAlloc", 8, true), at("cuMemFree", 8, true)}, true},
		{"no address", []events.Call{at("cuMemFree", 0, false), at("cuMemFree", 0, true)}, false},
		{"another operation", []events.Call{at("cuMemFree", 8, false), at("cuLaunchKernel", 8, true)}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f, got := newFreed(), false
			for i := range tt.calls {
				got = f.add(&tt.calls[i])
			}
			if got != tt.want {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
	f := newFreed()
	for i := range uint64(3 * mostFreed) {
		c := at("cuMemFree", i+1, false)
		f.add(&c)
	}
	if n := len(f.processes[4].pointers); n != mostFreed {
		t.Errorf("%d pointers are remembered, want %d", n, mostFreed)
	}
}
