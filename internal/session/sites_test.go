package session

import (
	"slices"
	"testing"
	"time"

	"ingero/internal/tick"
	"ingero/pkg/events"
)

// A chain has the place of the calls that took most time, if known.
func TestSites(t *testing.T) {
	const op, other = events.Op(0x0130), events.Op(0x0131)
	s := newSites()
	call := func(stack uint32, level uint8, ns int64) events.Call {
		return events.Call{PID: 7, Op: op, Stack: stack, StackLevel: level, Weight: 1, Duration: ns}
	}
	line := func(id uint32, n int32) events.Stack {
		return events.Stack{ID: id, PID: 7, Frames: []events.Frame{{Kind: events.FramePython, Func: "f", File: "a.py", Line: n}}}
	}
	s.batch([]events.Stack{line(1, 1)}, []events.Call{call(1, 0, 500), call(2, 2, 100), call(3, 0, 9_000), {PID: 7, Op: op, Duration: 1e9, Weight: 1}}, nil)
	s.batch([]events.Stack{line(2, 2), {ID: 3, PID: 7}}, nil, nil) // names arrive later, or never
	chains := func() []tick.Chain {
		x := []tick.Chain{{PID: 7, Op: op}, {PID: 7, Op: other}, {PID: 8, Op: op}, {PID: 7}}
		s.setChains(x)
		s.age(time.Unix(1, 0), nil)
		return x
	}
	for i, want := range []string{"a.py:2 in f()", "", "", ""} {
		if got := chains()[i].At; got != want {
			t.Errorf("chain %d is at %q, want %q", i, got, want)
		}
	}
	var many []events.Call
	for i := range uint32(10 * maxSites) {
		many = append(many, call(100+i, 0, 1))
	}
	s.batch(nil, many, nil)
	if n := len(s.ops[key{7, op}]); n != maxSites {
		t.Errorf("%d stacks are kept", n)
	}
	if got := chains()[0].At; got != "a.py:2 in f()" {
		t.Errorf("many small ones put the large one out: %q", got)
	}
	s.age(time.Unix(1e6, 0), []tick.Process{{PID: 7, Ended: time.Unix(1, 0)}})
	if len(s.ops) > 0 {
		t.Errorf("%d operations of a process that has ended", len(s.ops))
	}
}

// Stacks of calls that recur, and of chains, keep their lines however many others come.
func TestPlacesInUseStay(t *testing.T) {
	const op, other = events.Op(0x0130), events.Op(0x0131)
	s := newSites()
	s.places.add(1, place{at: "chain"})
	s.places.add(2, place{at: "recurs"})
	s.places.add(3, place{at: "once"})
	s.places.add(4, place{"helper", "caller"})
	call := func(op events.Op, stack uint32) {
		s.batch(nil, []events.Call{{PID: 7, Op: op, Stack: stack, Weight: 1, Duration: 500}}, nil)
	}
	call(op, 1)
	for i := range uint32(4 * maxPlaces) {
		s.places.add(10+i, place{at: "other program"})
		if i%maxPlaces == 0 {
			call(other, 2)
			call(other, 4)
			s.setChains([]tick.Chain{{PID: 7, Op: op}})
		}
	}
	for stack, want := range map[uint32]string{1: "chain", 2: "recurs", 3: "", 4: "helper, called by caller"} {
		if got := s.places.withCaller(stack); got != want {
			t.Errorf("the place of stack %d is %q, want %q", stack, got, want)
		}
	}
	if n := len(s.places.young) + len(s.places.old); n > 2*maxPlaces {
		t.Errorf("%d places", n)
	}
}

// A chain has the place of its own calls instead, if known. The place of a culprit in a helper has the helper's caller.
func TestSitesOfStacks(t *testing.T) {
	const op = events.Op(0x0130)
	frame := func(name string) events.Frame {
		return events.Frame{Kind: events.FrameNative, Func: name, Module: "/app", File: name + ".c", Line: 3}
	}
	s := newSites()
	s.batch([]events.Stack{
		{ID: 1, PID: 7, Frames: []events.Frame{{Kind: events.FrameNative, Func: "sync", Module: "/libcudart.so"}, frame("step")}},
		{ID: 2, PID: 7, Frames: []events.Frame{{Kind: events.FrameNative, Func: "sync", Module: "/libcudart.so"}, frame("item")}},
		{ID: 3, PID: 9, Own: true, Frames: []events.Frame{frame("nap"), frame("fetch")}},
	}, []events.Call{{PID: 7, Op: op, Stack: 1, Weight: 1, Duration: 500}, {PID: 7, Op: op, Stack: 2, Weight: 1, Duration: 100}},
		[]events.Wait{{PID: 7, TID: 7, State: events.WaitBlocked, Who: events.Thread{PID: 9, TID: 9, Parent: 7}, Stack: 3, Duration: 1000}})
	chains := []tick.Chain{
		{PID: 7, TID: 7, Op: op, Stack: 2, Culprits: []tick.Culprit{{What: "slept", Stack: 3}, {What: "slept", Thread: events.Thread{PID: 9, TID: 9, Parent: 7}}}},
		{PID: 7, TID: 7, Op: op, Stack: 4},
	}
	s.setChains(chains)
	if a, b := chains[0].At, chains[1].At; a != "item+0x0 (app) at item.c:3" || b != "step+0x0 (app) at step.c:3" {
		t.Errorf("at %q and %q", a, b)
	}
	for i := range chains[0].Culprits {
		if at, want := chains[0].Culprits[i].At, "nap (app) at nap.c:3, called by fetch (app) at fetch.c:3"; at != want {
			t.Errorf("culprit %d is at %q, want %q", i, at, want)
		}
	}
}

// An ended process is forgotten once, when it ended long ago, not again in each later tick.
func TestSitesAreForgottenOnce(t *testing.T) {
	s := newSites()
	ended := time.Unix(1000, 0)
	call := []events.Call{{PID: 7, Op: 0x0130, Stack: 1, Weight: 1, Duration: 500}}
	age := func(after time.Duration) {
		s.age(ended.Add(after), []tick.Process{{PID: 7, Ended: ended}})
	}
	for _, tt := range []struct {
		after time.Duration
		want  int // operations
	}{{time.Second, 1}, {tick.ChainStays, 1}, {tick.ChainStays + time.Second, 0}} {
		s.batch(nil, call, nil)
		if age(tt.after); len(s.ops) != tt.want {
			t.Errorf("%v after the end: %d operations, want %d", tt.after, len(s.ops), tt.want)
		}
	}
	s.batch(nil, call, nil)
	for n := range time.Duration(3) {
		if age(tick.ChainStays + (2+n)*time.Second); len(s.ops) != 1 {
			t.Errorf("forgotten again, %d seconds later", n+1)
		}
	}
}

// The lock places of a tick stay when a later one knows better.
func TestLocksOfATickStay(t *testing.T) {
	s := newSites()
	list := []tick.Share{{Stack: 5}}
	at := func() []tick.Breakdown {
		b := []tick.Breakdown{{PID: 7, BlockedOn: list}}
		s.setBreakdowns(b)
		return b
	}
	first := at()
	s.batch([]events.Stack{{ID: 5, PID: 7, Frames: []events.Frame{{Kind: events.FramePython, Func: "f", File: "a.py", Line: 3}}}}, nil, nil)
	if got := at()[0].BlockedOn[0].At; got != "a.py:3 in f()" {
		t.Errorf("the lock is at %q", got)
	}
	if got := first[0].BlockedOn[0].At; got != "" {
		t.Errorf("in a tick that was handed out the lock is at %q now", got)
	}
}

// The place of a process's own code has at least half of its time on a CPU between calls.
func TestPlaceOfOwnCode(t *testing.T) {
	s := newSites()
	frame := func(line int32) []events.Frame {
		return []events.Frame{{Kind: events.FramePython, Func: "f", File: "a.py", Line: line}}
	}
	gap := func(pid, stack uint32, ns int64) events.Call {
		return events.Call{PID: pid, Gap: ns, GapOnCPU: ns, GapStack: stack}
	}
	s.batch([]events.Stack{{ID: 5, PID: 7, Frames: frame(5)}, {ID: 6, PID: 7, Frames: frame(6)}},
		[]events.Call{gap(7, 5, 30e6), gap(7, 6, 20e6), gap(7, 5, 20e6), gap(8, 6, 90e6), gap(7, 0, 9e6)}, nil)
	for _, tt := range []struct {
		pid    uint32
		gapCPU uint64
		at     string
	}{{7, 79e6, "a.py:5 in f()"}, {7, 100e6, "a.py:5 in f()"}, {7, 101e6, ""}, {8, 90e6, "a.py:6 in f()"}, {9, 0, ""}} {
		b := []tick.Breakdown{{PID: tt.pid, GapCPU: tt.gapCPU}}
		s.setBreakdowns(b)
		if b[0].CodeAt() != tt.at {
			t.Errorf("process %d, %d ns: at %q, want %q", tt.pid, tt.gapCPU, b[0].CodeAt(), tt.at)
		}
	}
	s.age(time.Unix(1e6, 0), []tick.Process{{PID: 7, Ended: time.Unix(1, 0)}, {PID: 8, Ended: time.Unix(1, 0)}})
	if len(s.code) > 0 || len(s.unknown) > 0 {
		t.Errorf("%d and %d processes that have ended", len(s.code), len(s.unknown))
	}
}

// A sample of a short time between calls stands for others without one, at most for all of them.
func TestSampleOfOwnCode(t *testing.T) {
	const ms = 1_000_000
	for _, tt := range []struct {
		name         string
		without      int   // gaps without a sample before the sampled one
		each, gap    int64 // ns, of these and of the sampled one
		want, unsure int64
	}{
		{"long", 0, 0, 500 * ms, 500 * ms, 0},
		{"long, after short ones", 4, 3 * ms, 500 * ms, 500*ms + 12*ms/8, 12 * ms * 7 / 8},
		{"short", 9, 3 * ms, 3 * ms, 17_007_575, 30*ms - 17_007_575},
		{"short, after few", 2, 3 * ms, 3 * ms, 9 * ms, 0},
		{"the shortest", 1, 5 * ms, ms, 6 * ms, 0},
		{"too short to be sampled", 9, ms - 1, 3 * ms, 3 * ms, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newSites()
			calls := slices.Repeat([]events.Call{{PID: 7, GapOnCPU: tt.each}}, tt.without)
			s.batch(nil, append(calls, events.Call{PID: 7, GapOnCPU: tt.gap, GapStack: 5}), nil)
			if got := int64(s.code[7][0].ns); got != tt.want || s.unknown[7] != tt.unsure {
				t.Errorf("charged %d ns, %d are left; want %d and %d", got, s.unknown[7], tt.want, tt.unsure)
			}
		})
	}
}

// A culprit has the place with most time, summed over all stacks that lead there, by the waits of
// others for it. If that is unknown, it has the place where the victim waited.
func TestSitesOfCulprits(t *testing.T) {
	s := newSites()
	worker := events.Thread{PID: 8, TID: 9}
	line := func(id uint32, n int32) events.Stack {
		return events.Stack{ID: id, PID: 8, Frames: []events.Frame{{Kind: events.FramePython, Func: "f", File: "a.py", Line: n}}}
	}
	wait := func(who events.Thread, stack uint32, ns int64) events.Wait {
		return events.Wait{PID: 7, TID: 7, State: events.WaitBlocked, Who: who, Stack: stack, Duration: ns}
	}
	s.batch([]events.Stack{line(1, 1), line(2, 2), line(3, 2), line(4, 4)}, nil, []events.Wait{
		wait(worker, 1, 500), wait(worker, 2, 300), wait(worker, 3, 300), wait(worker, 0, 9_000), wait(events.Thread{}, 1, 9_000)})
	chains := []tick.Chain{{PID: 7, Culprits: []tick.Culprit{{Thread: worker}, {Thread: events.Thread{PID: 8, TID: 10}}, {}, {Thread: worker, CPUs: []uint16{1}},
		{Thread: worker, CPUs: []uint16{1}, What: "prepared input while the job waited"}}}}
	s.setChains(chains)
	for i, want := range []string{"a.py:2 in f()", "", "", "", "a.py:2 in f()"} {
		if got := chains[0].Culprits[i].At; got != want {
			t.Errorf("culprit %d was at %q, want %q", i, got, want)
		}
	}
	feeder := events.Thread{PID: 8, TID: 10}
	waited := []tick.Chain{{PID: 7, TID: 7, Culprits: []tick.Culprit{{Thread: worker, Stack: 4}, {Thread: feeder, Stack: 4},
		{Thread: events.Thread{PID: 7, TID: 7}, Own: true, Stack: 4}, {Thread: events.Thread{PID: 6, TID: 6, Parent: 2}, Stack: 4}, {Stack: 4}}}}
	s.setChains(waited)
	for i, want := range [][2]string{{"a.py:2 in f()", ""}, {"", "a.py:4 in f()"}, {"a.py:4 in f()", ""}, {"a.py:4 in f()", ""}, {"a.py:4 in f()", ""}} {
		if x := &waited[0].Culprits[i]; x.At != want[0] || x.Waited != want[1] {
			t.Errorf("culprit %d was at %q, and the job waited at %q; want %q", i, x.At, x.Waited, want)
		}
	}
	b := []tick.Breakdown{{PID: 7, BlockedOn: []tick.Share{{Who: feeder, Waker: &tick.WakerShare{Root: worker}}, {Who: worker, Waker: &tick.WakerShare{}}, {Who: worker}}}}
	s.setBreakdowns(b)
	for i, want := range []string{"a.py:2 in f()", "a.py:2 in f()", ""} {
		if got := b[0].BlockedOn[i].WakerAt; got != want {
			t.Errorf("of wait %d the place is %q, want %q", i, got, want)
		}
	}
	s.age(time.Unix(1e6, 0), []tick.Process{{PID: 8, Ended: time.Unix(1, 0)}})
	if len(s.threads) > 0 {
		t.Errorf("%d threads of a process that has ended", len(s.threads))
	}
}

// Few waits that are longer than usual decide the place of a culprit, however many usual ones there are.
func TestUsualWaitsHardlyCount(t *testing.T) {
	s := newSites()
	loop := events.Thread{PID: 8, TID: 8}
	s.places.add(1, place{at: "poll"})
	s.places.add(2, place{at: "decode"})
	wait := func(state events.WaitState, stack uint32, ns int64) {
		s.batch(nil, nil, []events.Wait{{PID: 7, TID: 7, State: state, Who: loop, Stack: stack, Duration: ns}})
	}
	for range 1000 {
		wait(events.WaitBlocked, 1, 4e6)
		wait(events.WaitRunnable, 0, 9e6) // had the CPU
	}
	if got := s.thread(&loop); got != "poll" {
		t.Errorf("the place of usual waits is %q", got)
	}
	wait(events.WaitBlocked, 0, 44e6)
	for range 2 {
		wait(events.WaitBlocked, 2, 44e6)
	}
	if got := s.thread(&loop); got != "decode" {
		t.Errorf("the place of longer waits is %q", got)
	}
	s.age(time.Unix(1e6, 0), []tick.Process{{PID: 8, Ended: time.Unix(1, 0)}})
	if len(s.usual) > 0 {
		t.Errorf("%d threads of a process that has ended", len(s.usual))
	}
}

// A wait after a chain's last slow step, as for the exit of a worker, does not change the chain's places.
func TestPlacesAreThoseOfSlowSteps(t *testing.T) {
	op := events.Op(0x0130)
	s := newSites()
	worker := events.Thread{PID: 8, TID: 8}
	for i, at := range []string{"read", "exit", "step", "shutdown"} {
		s.places.add(uint32(i)+1, place{at: at})
	}
	spend := func(workerAt, callAt uint32, ns int64) {
		s.batch(nil, []events.Call{{PID: 7, Op: op, Stack: callAt, Weight: 1, Duration: ns}},
			[]events.Wait{{PID: 7, TID: 7, State: events.WaitBlocked, Who: worker, Stack: workerAt, Duration: ns}})
	}
	check := func(to int64, at, culprit string) {
		t.Helper()
		chains := []tick.Chain{{ID: "c", PID: 7, Op: op, To: time.Unix(to, 0), Culprits: []tick.Culprit{{Thread: worker}}}}
		s.setChains(chains)
		if c := &chains[0]; c.At != at || c.Culprits[0].At != culprit {
			t.Errorf("the last slow step at %d: in %q, the culprit in %q; want %q and %q", to, c.At, c.Culprits[0].At, at, culprit)
		}
	}
	check(1, "", "")
	spend(1, 3, 100e6) // its record comes late
	check(1, "step", "read")
	spend(2, 4, 300e6)
	check(1, "step", "read")
	check(2, "shutdown", "exit")
	spend(5, 6, 900e6) // the names come late
	check(3, "shutdown", "exit")
	s.places.add(5, place{at: "decode"})
	s.places.add(6, place{at: "launch"})
	check(3, "launch", "decode")
	op = 0x0140 // of a chain that is judged anew
	spend(1, 3, 1e6)
	check(3, "step", "decode")
	if s.setChains(nil); len(s.chains) > 0 {
		t.Errorf("%d chains that are over have places", len(s.chains))
	}
}

// The place of a forced release of the GIL is charged for earlier and later forced releases at
// unknown places; the place of a voluntary release is not.
func TestSitesOfUnknownTurns(t *testing.T) {
	holder := events.Thread{PID: 7, TID: 9}
	const forced, by = 1, 2 // stacks, of lines with these numbers
	type turn struct {
		passed, stack uint32
		ns            int64
	}
	for _, tt := range []struct {
		name  string
		turns []turn
		at    string
		ns    float64 // time at that place
	}{
		{"in vain until it lets go by itself", []turn{{4, 0, 5e6}, {4, by, 1e6}}, "a.py:2 in f()", 6e6},
		{"another one had it before", []turn{{4, 0, 5e6}, {6, by, 1e6}}, "a.py:2 in f()", 1e6},
		{"the place comes later", []turn{{4, 0, 5e6}, {6, by, 4e6}, {8, 0, 5e6}, {8, forced, 1e5}}, "a.py:1 in f()", 10.1e6},
		{"the place came before", []turn{{4, 0, 5e6}, {4, forced, 1e5}, {6, 0, 5e6}, {8, by, 4e6}}, "a.py:1 in f()", 10.1e6},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, at := newSites(), int64(0)
			for _, line := range []uint32{forced, by} {
				s.batch([]events.Stack{{ID: line, PID: 7, Frames: []events.Frame{{Kind: events.FramePython, Func: "f", File: "a.py", Line: int32(line)}}}}, nil, nil)
			}
			for _, x := range tt.turns {
				s.batch(nil, nil, []events.Wait{{PID: 7, TID: 8, Who: holder, Reason: events.ReasonGIL, Stack: x.stack, Passed: x.passed, Start: at, Duration: x.ns}})
				at += x.ns + 1000
			}
			b := []tick.Breakdown{{PID: 7, BlockedOn: []tick.Share{{Reason: events.ReasonGIL, Who: holder, Stack: by}}}}
			s.setBreakdowns(b)
			if got := b[0].BlockedOn[0].At; got != tt.at {
				t.Errorf("the holder was at %q, want %q", got, tt.at)
			}
			most := 0.0
			for _, x := range s.holders[threadKey{7, 9}] {
				most = max(most, x.ns)
			}
			if most != tt.ns {
				t.Errorf("%.0f ns at the place of most, want %.0f", most, tt.ns)
			}
		})
	}
}

// If the holders in between are unknown, adjacent turns are one wait.
func TestSitesOfTurns(t *testing.T) {
	s := newSites()
	holder := events.Thread{PID: 7, TID: 9}
	line := func(id uint32, n int32) events.Stack {
		return events.Stack{ID: id, PID: 7, Frames: []events.Frame{{Kind: events.FramePython, Func: "f", File: "a.py", Line: n}}}
	}
	at := int64(0)
	wait := func(who events.Thread, stack uint32, ns int64) events.Wait {
		at += ns + 1000
		return events.Wait{PID: 7, TID: 8, Who: who, Reason: events.ReasonGIL, Stack: stack, Start: at - ns, Duration: ns}
	}
	s.batch([]events.Stack{line(1, 1), line(2, 2), line(3, 3)}, nil, []events.Wait{
		wait(holder, 0, 5e6), wait(holder, 0, 5e6), wait(holder, 1, 1e5), wait(holder, 2, 8e6), wait(events.Thread{PID: 7, TID: 10}, 0, 5e6)})
	at += 2e6 // it had the lock meanwhile
	s.batch(nil, nil, []events.Wait{wait(holder, 0, 9e6), wait(events.Thread{PID: 7, TID: 10}, 3, 1e6)})
	if got, want := s.thread(&holder), "a.py:1 in f()"; got != want {
		t.Errorf("the holder was at %q, want %q", got, want)
	}
	if got := s.threads[threadKey{7, 10}]; len(got) != 1 || got[0].ns != 1e6 {
		t.Errorf("of the thread that let go at last: %+v, want 1 ms", got)
	}
	s.age(time.Unix(1e6, 0), []tick.Process{{PID: 7, Ended: time.Unix(1, 0)}})
	if len(s.turns) > 0 {
		t.Errorf("%d waits of a process that has ended", len(s.turns))
	}
}
