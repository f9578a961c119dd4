package metric

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"ingero/internal/stats"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

var (
	launch, _ = events.OpByName("cudaLaunchKernel")
	synch, _  = events.OpByName("cudaStreamSynchronize")
	malloc, _ = events.OpByName("cudaMalloc")
)

// The calls of ended processes stay in the sums, and counts of calls are exact even if records are
// missing.
func TestOperations(t *testing.T) {
	w := newWorld(t)
	for range 10 {
		w.call(1, launch, events.Call{Duration: 2000})
		w.call(2, launch, events.Call{Duration: 4000, Flags: events.CallFailed})
	}
	s := w.tick(nil)
	near(t, "calls", value(s, OpCount, "cudaLaunchKernel", "cudart"), 20)
	near(t, "errors", value(s, OpErrors, "cudaLaunchKernel", "cudart"), 10)
	near(t, "durations", value(s, OpDuration, "cudaLaunchKernel", "cudart"), 20)
	near(t, "open", value(s, OpOpen, "cudaLaunchKernel", "cudart"), 0)

	delete(w.ops, opPID{2, launch})
	w.call(1, launch, events.Call{Duration: 2000})
	w.ops[opPID{1, launch}].Sum.Calls++
	w.ops[opPID{1, launch}].Last.Calls++
	s = w.tick(nil)
	near(t, "calls", value(s, OpCount, "cudaLaunchKernel", "cudart"), 22)
	near(t, "open", value(s, OpOpen, "cudaLaunchKernel", "cudart"), 1)
	near(t, "durations", value(s, OpDuration, "cudaLaunchKernel", "cudart"), 21)

	// One of 1000 calls has a record, and the kernel has counted all.
	o := w.ops[opPID{1, launch}]
	o.Thinned = true
	o.Sum.Calls, o.Sum.Done, o.Last.Calls = o.Sum.Calls+1000, o.Sum.Done+1000, 1000
	o.Hist.Record(1_000_000, 1000)
	o.DurLast.Add(2000, 1)
	s = w.tick(nil)
	near(t, "durations", value(s, OpDuration, "cudaLaunchKernel", "cudart"), 1021)
	d := w.m.ops.byOp[launch].sketch
	if got := float64(d.Quantile(0.9)); math.Abs(got-1e6) > stats.HistError*1e6 {
		t.Errorf("p90 is %v, want 1 ms", got)
	}
}

// The ledger's parts add up to the time of all calls and gaps, tick after tick, whatever the waits;
// and culprits are named.
func TestLedgerAddsUp(t *testing.T) {
	w := newWorld(t)
	r := rand.New(rand.NewPCG(1, 2))
	want := 0.0
	for range 50 {
		var b tick.Batch
		for range r.IntN(40) {
			pid, op := uint32(1+r.IntN(3)), []events.Op{launch, synch, malloc}[r.IntN(3)]
			c := events.Call{OnCPU: r.Int64N(1000), Runnable: r.Int64N(1000), Throttled: r.Int64N(100), Blocked: r.Int64N(1000), Weight: uint32(1 + r.IntN(3)),
				Gap: 1000 + r.Int64N(5000), GapOnCPU: r.Int64N(500), GapRunnable: r.Int64N(500)}
			c.Duration = c.OnCPU + c.Runnable + c.Throttled + c.Blocked
			if r.IntN(5) == 0 {
				c.Flags = events.CallLedgerPartial | events.CallGapPartial
			}
			want += float64(int64(c.Weight)*c.Duration+c.Gap) / 1e9
			others := int64(c.Weight) - 1 // without a record: they are in the gap
			c.Gap, c.GapOnCPU, c.GapRunnable = c.Gap+others*c.Duration, c.GapOnCPU+others*c.OnCPU, c.GapRunnable+others*c.Runnable
			c.GapThrottled += others * c.Throttled
			b.Calls = append(b.Calls, w.call(pid, op, c))
			b.Waits = append(b.Waits, events.Wait{PID: pid, TID: pid, Op: op, State: events.WaitRunnable, Duration: c.Runnable, Taken: c.Runnable, Who: events.Thread{PID: 9, TID: 9, Name: events.NameOf("hog")}})
		}
		w.batch(b)
		near(t, "the ledger's sum", sum(w.tick(nil), LedgerTime), want)
	}
}

// Labels name the culprits of a thread's time.
func TestCulprits(t *testing.T) {
	hog := events.Thread{PID: 9, TID: 9, Name: events.NameOf("hog")}
	for name, c := range map[string]struct {
		wait events.Wait
		want []string // from the operation on; nil: unnamed
	}{
		"CPU taken": {events.Wait{State: events.WaitRunnable, Duration: 300, Taken: 200, Who: hog, Op: launch}, []string{"cudaLaunchKernel", "runnable", "", "hog"}},
		"between":   {events.Wait{State: events.WaitRunnable, Duration: 200, Taken: 200, Who: hog}, []string{"between-calls", "runnable", "", "hog"}},
		"again":     {events.Wait{State: events.WaitRunnable, Duration: 300, Taken: 200, Who: hog, Flags: events.WaitPrevious}, []string{"between-calls", "runnable", "", "hog"}},
		"own": {events.Wait{State: events.WaitRunnable, Duration: 200, Taken: 200, Who: events.Thread{PID: 1, TID: 2, Name: events.NameOf("x")}},
			[]string{"between-calls", "runnable", "", "own-threads"}},
		"idle":       {events.Wait{State: events.WaitRunnable, Duration: 200, Flags: events.WaitIdle}, []string{"between-calls", "runnable", "", "idle"}},
		"many":       {events.Wait{State: events.WaitRunnable, Duration: 300, Taken: 200, Flags: events.WaitOthers}, []string{"between-calls", "runnable", "", "others"}},
		"hypervisor": {events.Wait{State: events.WaitRunnable, Reason: events.ReasonHypervisor, Duration: 200, Taken: 200}, []string{"between-calls", "runnable", "", "hypervisor"}},
		"nobody":     {events.Wait{State: events.WaitRunnable, Duration: 200, Taken: 200}, nil},
		"quota":      {events.Wait{State: events.WaitThrottled, Duration: 200}, []string{"between-calls", "throttled", "", "cpu-quota"}},
		"disk":       {events.Wait{State: events.WaitBlocked, Duration: 200, Reason: events.ReasonDisk, Flags: events.WaitByIRQ, Op: malloc}, []string{"cudaMalloc", "blocked", "disk", "irq"}},
		"lock":       {events.Wait{State: events.WaitBlocked, Duration: 200, Reason: events.ReasonLock, Who: hog}, []string{"between-calls", "blocked", "lock", "hog"}},
		"GPU":        {events.Wait{State: events.WaitBlocked, Duration: 200, Reason: events.ReasonGPU, Who: hog, Op: synch}, nil},
		"no caller":  {events.Wait{State: events.WaitBlocked, Duration: 200, Reason: events.ReasonLock, Who: hog, TID: 77}, nil},
		"bad name":   {events.Wait{State: events.WaitBlocked, Duration: 200, Reason: events.ReasonPipe, Who: events.Thread{PID: 8, TID: 8, Name: events.NameOf("a\n\xffb")}}, []string{"between-calls", "blocked", "pipe", "a??b"}},
		"same, prev": {events.Wait{State: events.WaitBlocked, Duration: 200, Reason: events.ReasonPipe, Who: hog, Flags: events.WaitPrevious}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.batch(tick.Batch{Calls: []events.Call{w.call(1, launch, events.Call{Duration: 10, OnCPU: 10})}})
			w.tick(nil)
			c.wait.PID = 1
			if c.wait.TID == 0 {
				c.wait.TID = 1
			}
			w.batch(tick.Batch{Waits: []events.Wait{c.wait}})
			s := w.tick(nil)
			if c.want == nil {
				near(t, "the ledger's sum", sum(s, LedgerTime), 10e-9)
				return
			}
			near(t, "the series", value(s, LedgerTime, append([]string{"train", "1"}, c.want...)...), 200e-9)
		})
	}
}

// Time in calls that wait for the GPU has that as its reason.
func TestGPUWaits(t *testing.T) {
	w := newWorld(t)
	w.batch(tick.Batch{Calls: []events.Call{w.call(1, synch, events.Call{Duration: 100, OnCPU: 40, Runnable: 10, Blocked: 50})}})
	s := w.tick(nil)
	near(t, "on the CPU", value(s, LedgerTime, "train", "1", "cudaStreamSynchronize", "on_cpu", "gpu", ""), 40e-9)
	near(t, "blocked", value(s, LedgerTime, "train", "1", "cudaStreamSynchronize", "blocked", "gpu", ""), 50e-9)
	near(t, "runnable", value(s, LedgerTime, "train", "1", "cudaStreamSynchronize", "runnable", "", ""), 10e-9)
}

// With any number of processes, operations and culprits, series are bounded, sums stay complete,
// and what had no room is counted.
func TestBounds(t *testing.T) {
	w := newWorld(t)
	want := 0.0
	var b tick.Batch
	for pid := uint32(1); pid <= 300; pid++ {
		for i := range 20 {
			c := w.call(pid, events.Catalog[(int(pid)+i)%len(events.Catalog)].Op, events.Call{Duration: 1000, OnCPU: 900, Runnable: 100})
			b.Calls = append(b.Calls, c)
			want += 1000e-9
			name := events.NameOf(string(rune('a'+i)) + number(pid*1000+uint32(w.seq)))
			b.Waits = append(b.Waits, events.Wait{PID: pid, TID: pid, Op: c.Op, State: events.WaitRunnable, Duration: 100, Taken: 100, Who: events.Thread{PID: 9, TID: 9, Name: name}})
		}
	}
	for range 3 {
		w.batch(b)
		s := w.tick(func(t *tick.Tick) {
			for i := range t.Processes {
				pid := t.Processes[i].PID
				t.Breakdowns = append(t.Breakdowns, tick.Breakdown{PID: pid, Critical: 5})
				t.States = append(t.States, tick.State{PID: pid, Memory: tick.Memory{Used: true}})
				t.Episodes = append(t.Episodes, tick.Episode{Kind: tick.EpisodeBegin, ID: number(pid), Severity: tick.High, Lost: time.Second,
					Chain: tick.Chain{Rule: "cpu-taken", PID: pid, Culprits: []tick.Culprit{{What: number(pid * 7)}}}})
				t.Drops = append(t.Drops, tick.Drop{Reason: number(pid), Count: 1})
				t.Xids = append(t.Xids, tick.Xid{Code: pid})
				t.Lates = append(t.Lates, tick.Straggler{To: 1, Rank: tick.Rank{Rank: int32(pid)}})
			}
		})
		near(t, "the ledger's sum", sum(s, LedgerTime), want*float64(w.seq))
		near(t, "what was lost", sum(s, AnomalyLost), 300)
	}
	s := w.m.Snapshot()
	for _, id := range []ID{LedgerTime, ProcessInfo, Drops, GPUErrors, RankLate} {
		if value(s, SeriesOver, Rows[id].Name) == 0 {
			t.Errorf("%s: nothing had no room", Rows[id].Name)
		}
		if n, most := value(s, SeriesNow, Rows[id].Name), value(s, SeriesMost, Rows[id].Name); n > most || n == 0 {
			t.Errorf("%s: %v series of %v", Rows[id].Name, n, most)
		}
	}
}

// A process that gets series of its own counts there from then on: what it added to the others stays there.
func TestOtherGetsOwnSeries(t *testing.T) {
	w := newWorld(t)
	for pid := uint32(1); pid <= mostProcesses+1; pid++ {
		w.call(pid, launch, events.Call{Duration: 10})
	}
	const last = mostProcesses + 1
	add := func(n uint64) func(t *tick.Tick) {
		return func(t *tick.Tick) {
			b := tick.Breakdown{PID: last, Critical: n * 1e9, ByThread: []tick.ThreadTime{{TID: last}}}
			b.ByThread[0].In[tick.InCalls].OnCPU = n * 1e9
			t.Breakdowns = append(t.Breakdowns, b)
			t.States = append(t.States, tick.State{PID: last, Memory: tick.Memory{Used: true, OOMs: n}})
		}
	}
	w.tick(add(3))
	w.pids = w.pids[1:] // the first has ended
	w.now = w.now.Add(linger)
	s := w.tick(add(5))
	for _, id := range []ID{ThreadTime, StepLost, MemoryOOMs} {
		near(t, Rows[id].Name, sum(s, id), 5)
	}
	near(t, "OOMs of its own", value(s, MemoryOOMs, "train", number(last)), 2)
}

// The sums of processes without series of their own stay in the series of the others after they have ended.
func TestOthersComeAndGo(t *testing.T) {
	w := newWorld(t)
	for pid := uint32(1); pid <= mostProcesses; pid++ {
		w.call(pid, launch, events.Call{Duration: 10})
	}
	w.tick(nil)
	own := w.pids
	var s *Snapshot
	for i := range uint32(20) {
		pid := 1000 + i
		w.pids = own
		w.call(pid, launch, events.Call{Duration: 10})
		for range 2 { // the second changes nothing
			s = w.tick(func(t *tick.Tick) {
				b := tick.Breakdown{PID: pid, Critical: 1e9, ByThread: []tick.ThreadTime{{TID: pid}}}
				b.ByThread[0].In[tick.InCalls].OnCPU = 1e9
				t.Breakdowns = append(t.Breakdowns, b)
				t.States = append(t.States, tick.State{PID: pid, Memory: tick.Memory{Used: true, OOMs: 1}})
			})
		}
	}
	near(t, "time", value(s, ThreadTime, Other, "0", "calls", "on_cpu"), 20)
	near(t, "lost time", value(s, StepLost, Other, "0"), 20)
	near(t, "OOMs", value(s, MemoryOOMs, Other, "0"), 20)

	w.pids = append(own[:len(own):len(own)], 1019)
	s = w.tick(func(t *tick.Tick) {
		t.Processes[len(own)].Started = w.now // the pid was reused
		t.States = append(t.States, tick.State{PID: 1019, Memory: tick.Memory{Used: true, OOMs: 1}})
	})
	near(t, "OOMs", value(s, MemoryOOMs, Other, "0"), 21)
}

// A process that has ended leaks no memory.
func TestLeakEnds(t *testing.T) {
	w := newWorld(t)
	w.call(1, launch, events.Call{Duration: 10})
	leak := func(t *tick.Tick) {
		t.States = []tick.State{{PID: 1, Memory: tick.Memory{Used: true, Growth: tick.Growth{Low: 120, Leak: true}}}}
	}
	near(t, "growth", value(w.tick(leak), MemoryGrowth, "train", "1"), 2)
	ended := w.now.Add(time.Millisecond)
	near(t, "growth", value(w.tick(func(t *tick.Tick) { leak(t); t.Processes[0].Ended = ended }), MemoryGrowth, "train", "1"), 0)
	near(t, "growth", value(w.tick(func(t *tick.Tick) { t.Processes[0].Ended = ended }), MemoryGrowth, "train", "1"), 0)
}

// An ended process's series stay for some minutes, and a process that reuses its pid has new ones.
func TestProcessEnds(t *testing.T) {
	w := newWorld(t)
	w.batch(tick.Batch{Calls: []events.Call{w.call(1, launch, events.Call{Duration: 10, OnCPU: 10})}})
	s := w.tick(nil)
	near(t, "processes", value(s, Processes), 1)
	ended := w.now
	gone := func(t *tick.Tick) { t.Processes[0].Ended = ended }
	w.now = w.now.Add(linger - 2*time.Second)
	s = w.tick(gone)
	near(t, "processes", value(s, Processes), 0)
	near(t, "its time", value(s, LedgerTime, "train", "1", "cudaLaunchKernel", "on_cpu", "", ""), 10e-9)
	w.now = w.now.Add(2 * time.Second)
	w.last = nil
	s = w.tick(gone)
	if sum(s, LedgerTime) != 0 || sum(s, ProcessInfo) != 0 || len(w.m.ledger.spent)+len(w.m.ledger.series)+len(w.m.procs.byPID) != 0 {
		t.Errorf("it is still there: %v", w.m.ledger.series)
	}
	w.batch(tick.Batch{Calls: []events.Call{w.call(1, launch, events.Call{Duration: 7, OnCPU: 7})}})
	s = w.tick(func(t *tick.Tick) { t.Processes[0].Started = ended.Add(time.Second) })
	near(t, "its time", value(s, LedgerTime, "train", "1", "cudaLaunchKernel", "on_cpu", "", ""), 7e-9)
}

// A process that calls exec keeps its sums under its new name.
func TestNewName(t *testing.T) {
	w := newWorld(t)
	w.batch(tick.Batch{Calls: []events.Call{w.call(1, launch, events.Call{Duration: 10, OnCPU: 10})}})
	w.tick(nil)
	s := w.tick(func(t *tick.Tick) { t.Processes[0].Comm = "eval" })
	near(t, "its time", value(s, LedgerTime, "eval", "1", "cudaLaunchKernel", "on_cpu", "", ""), 10e-9)
}
