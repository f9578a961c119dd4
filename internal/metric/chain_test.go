package metric

import (
	"testing"
	"time"

	"ingero/internal/stats"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

// A cause is counted at each severity that it reaches, its loss is added as it is reported, and a
// revised cause is removed.
func TestEpisodes(t *testing.T) {
	w := newWorld(t)
	chain := tick.Chain{ID: "c-1", Rule: "cpu-taken", PID: 1, Op: launch, OpP99: 3 * time.Millisecond, To: epoch,
		Culprits: []tick.Culprit{{Thread: events.Thread{PID: 9, TID: 9, Name: events.NameOf("hog")}}}}
	w.call(1, launch, events.Call{Duration: 3e6})
	step := func(e tick.Episode) *Snapshot {
		e.ID, e.Chain = "c-1/1", chain
		return w.tick(func(t *tick.Tick) { t.Episodes, t.Chains = []tick.Episode{e}, []tick.Chain{chain} })
	}
	s := w.tick(nil)
	near(t, "before", value(s, Anomalies, "cpu-taken", "HIGH"), 0)
	s = step(tick.Episode{Kind: tick.EpisodeBegin, Severity: tick.Low, Lost: time.Second})
	near(t, "LOW", value(s, Anomalies, "cpu-taken", "LOW"), 1)
	near(t, "active", value(s, AnomaliesActive, "cpu-taken", "LOW"), 1)
	s = step(tick.Episode{Kind: tick.EpisodeUpdate, Severity: tick.High, Lost: 3 * time.Second})
	near(t, "LOW", value(s, Anomalies, "cpu-taken", "LOW"), 1)
	near(t, "MEDIUM", value(s, Anomalies, "cpu-taken", "MEDIUM"), 1)
	near(t, "HIGH", value(s, Anomalies, "cpu-taken", "HIGH"), 1)
	near(t, "active", value(s, AnomaliesActive, "cpu-taken", "HIGH"), 1)
	s = step(tick.Episode{Kind: tick.EpisodeEnd, Severity: tick.High, Lost: 4 * time.Second})
	near(t, "active", value(s, AnomaliesActive, "cpu-taken", "HIGH"), 0)
	near(t, "lost", value(s, AnomalyLost, "train", "1", "cpu-taken", "hog"), 4)
	for i := range s.Families {
		switch s.Families[i].Row {
		case &Rows[OpDuration], &Rows[AnomalyLost]:
			if e := s.Families[i].Points[0].Exemplars; len(e) != 1 || e[0].Chain != "c-1" || e[0].Rule != "cpu-taken" {
				t.Errorf("%s: exemplars %+v", s.Families[i].Name, e)
			}
		}
	}

	other := tick.Episode{ID: "c-2/1", Kind: tick.EpisodeBegin, Severity: tick.Low, Lost: time.Second, Chain: tick.Chain{ID: "c-2", Rule: "disk-wait", PID: 1, To: epoch.Add(time.Minute)}}
	w.tick(func(t *tick.Tick) { t.Episodes = []tick.Episode{other} })
	other.Kind = tick.EpisodeRevised
	s = w.tick(func(t *tick.Tick) { t.Episodes = []tick.Episode{other} })
	near(t, "revised", value(s, AnomaliesRevised), 1)
	near(t, "active", value(s, AnomaliesActive, "disk-wait", "LOW"), 0)
	for i := range s.Families {
		for _, p := range s.Families[i].Points {
			if len(p.Exemplars) > 1 || len(p.Exemplars) == 1 && p.Exemplars[0].Chain == other.Chain.ID {
				t.Errorf("%s %v: exemplars %+v", s.Families[i].Name, p.Labels, p.Exemplars)
			}
		}
	}
	other.Hidden, other.ID, other.Kind = true, "c-3/1", tick.EpisodeBegin
	s = w.tick(func(t *tick.Tick) { t.Episodes = []tick.Episode{other} })
	near(t, "hidden", value(s, Anomalies, "disk-wait", "LOW"), 1)
}

// Each step counts once: those of the main and the current loop since the last tick, and all steps of a new
// one, also if the main loop changes back.
func TestSteps(t *testing.T) {
	w := newWorld(t)
	w.call(1, launch, events.Call{Duration: 10})
	loop := &tick.Loop{TID: 1, Op: synch, Waits: 1, Lengths: &stats.Sketch{}}
	run := func(steps int) *Snapshot {
		for range steps {
			loop.Lengths.Add(15e6, 1)
		}
		loop.Steps += uint64(steps)
		return w.tick(func(t *tick.Tick) {
			t.Breakdowns = []tick.Breakdown{{PID: 1, Critical: 1e9, Loop: loop, ByThread: []tick.ThreadTime{{TID: 1, In: [tick.Places]tick.Spent{tick.InCalls: {Times: tick.Times{OnCPU: 2e9}}}}}}}
			t.Threads[0].Until, t.Threads[0].Open = 5e9, []tick.OpenCall{{Op: synch, Start: 2e9}}
		})
	}
	near(t, "steps", value(run(7), StepDuration, "train", "1"), 7)
	near(t, "steps", value(run(0), StepDuration, "train", "1"), 7)
	near(t, "steps", value(run(3), StepDuration, "train", "1"), 10)
	first := loop
	loop = &tick.Loop{TID: 1, Op: launch, Waits: 2, Lengths: &stats.Sketch{}}
	near(t, "steps", value(run(4), StepDuration, "train", "1"), 14)
	second := loop
	loop = first // the main loop changes back
	near(t, "steps of the first loop", value(run(2), StepDuration, "train", "1"), 16)
	loop = second
	near(t, "steps of the second loop", value(run(0), StepDuration, "train", "1"), 16)
	loop = &tick.Loop{TID: 1, Op: launch, Waits: 3, Range: "step #", Lengths: &stats.Sketch{}}
	near(t, "steps of a range", value(run(5), StepDuration, "train", "1"), 21)
	loop.Waits = 4
	s := run(1)
	near(t, "steps of a range with another number of waits", value(s, StepDuration, "train", "1"), 22)
	loop.Now = &tick.Loop{ID: 7, TID: 1, Op: synch, Steps: 5, Lengths: &stats.Sketch{}}
	loop.Now.Lengths.Add(15e6, 5)
	for range 2 { // the second has no new steps
		s = run(0)
		near(t, "steps with those of the current loop", value(s, StepDuration, "train", "1"), 27)
	}
	near(t, "lost", value(s, StepLost, "train", "1"), 1)
	near(t, "in calls", value(s, ThreadTime, "train", "1", "calls", "on_cpu"), 2)
	near(t, "open", value(s, OpenCallAge, "train", "1"), 3)
	s = w.tick(nil) // the ledger has forgotten it
	near(t, "lost", value(s, StepLost, "train", "1"), 1)
	near(t, "open", value(s, OpenCallAge, "train", "1"), 0)
}

// Two loops whose steps end alike are told apart by their IDs. The loop that was the main one longest ago
// makes room for others.
func TestStepsOfManyLoops(t *testing.T) {
	p := &process{}
	at := func(id uint64, steps int) {
		l := &tick.Loop{ID: id, TID: 1, Op: synch, Waits: 2, Steps: uint64(steps), Lengths: &stats.Sketch{}}
		l.Lengths.Add(15e6, uint32(steps))
		p.stepsOf(l)
	}
	at(1, 10)
	at(2, 4)
	at(1, 12)
	at(2, 5)
	if n := p.steps.Count(); n != 17 {
		t.Errorf("%d steps of two loops, want 17", n)
	}
	for id := range uint64(3 * mostLoops) {
		at(1, 12)
		at(3+id, 1)
	}
	if n := p.steps.Count(); n != 17+3*mostLoops || len(p.loops) != mostLoops {
		t.Errorf("%d steps, %d loops, want %d and %d", n, len(p.loops), 17+3*mostLoops, mostLoops)
	}
}

// Memory errors are the sum since the session began: errors from before do not count, and errors after a
// reload of the driver do. The sum stays when the GPU does not answer.
func TestMemoryErrors(t *testing.T) {
	w := newWorld(t)
	n := func(v int64) *int64 { return &v }
	for i, c := range []struct {
		corrected, lost         *int64
		wantCorrected, wantLost float64
	}{{n(12), n(1), 0, 0}, {n(12), n(1), 0, 0}, {n(15), n(1), 3, 0}, {nil, nil, 3, 0}, {n(16), n(2), 4, 1}, {n(2), n(0), 6, 1}, {n(5), n(4), 9, 5}} {
		s := w.tick(func(t *tick.Tick) {
			t.GPUs = []tick.GPU{{UUID: "GPU-x", ECCCorrected: c.corrected, ECCLost: c.lost}}
		})
		near(t, "corrected in tick "+number(uint32(i)), value(s, GPUErrors, "ecc-corrected", "GPU-x", "gpu"), c.wantCorrected)
		near(t, "uncorrected in tick "+number(uint32(i)), value(s, GPUErrors, "ecc-uncorrected", "GPU-x", "gpu"), c.wantLost)
	}
}

// Known values of GPUs and the machine have points, unknown ones have none.
func TestMachine(t *testing.T) {
	w := newWorld(t)
	w.call(1, launch, events.Call{Duration: 10})
	busy, used := 0.5, int64(1<<30)
	gpu := tick.GPU{Index: 1, Bus: "0000:75:00.0", UUID: "GPU-x", Name: "NVIDIA H200", Busy: &busy, MemUsed: &used, Throttle: []string{"power cap"}}
	fill := func(t *tick.Tick) {
		t.GPUs = []tick.GPU{gpu}
		t.Xids = []tick.Xid{{Code: 79, Bus: "0000:75:00"}, {Code: 79, Bus: "0000:75:00", Injected: true}, {Code: 12028, Switch: true, Bus: "0000:c0:00"}, {Code: 94, Bus: "0000:75:00", GPUInstance: tick.Numbered(5)}}
		t.Host = tick.Host{CPU: 0.25, MemTotal: 100, MemAvail: 40}
		t.HostSums = []tick.HostSum{{HostKey: tick.HostKey{Kind: tick.HostDiskRead, Object: "vda"}, Count: 2, NS: 3e9, Bytes: 4096}, {HostKey: tick.HostKey{Kind: tick.HostDiskRead, Object: "vdb"}, Count: 1}}
		t.Drops, t.Self, t.Records = []tick.Drop{{Reason: "thinned", Count: 9}}, tick.Self{CPU: time.Second, RSS: 1 << 20}, 77
		t.States = []tick.State{{PID: 1, Copies: []tick.Copy{{Dir: tick.CopyHostToDevice, Host: tick.HostPinned, Bytes: 100 * w.seq}},
			Memory: tick.Memory{Used: true, GPU: tick.Held{Bytes: 5, Peak: 6}, OOMs: 2, Growth: tick.Growth{Low: 120, Leak: true}}}}
		t.Overhead = tick.Overhead{Budget: 0.02, Share: 0.05, Probes: 0.03, Stacks: 0.001, Agent: 0.018, Tracepoints: 0.001, Shed: []string{"stacks-rare"}, Floor: tick.Floor{Share: 0.04}}
		t.RollCalls = []tick.RollCall{{Since: t.Time.Add(-40 * time.Second).UnixNano()}}
		t.Lates = []tick.Straggler{{From: 1e9, To: 3e9, Rank: tick.Rank{Rank: 3}}}
	}
	w.tick(fill)
	s := w.tick(fill)
	for _, x := range []struct {
		id     ID
		want   float64
		labels []string
	}{
		{GPUBusy, 0.5, []string{"GPU-x", "gpu", "NVIDIA H200", "1"}},
		{GPUMemoryUsed, 1 << 30, []string{"GPU-x", "gpu", "NVIDIA H200", "1"}},
		{GPULost, 0, []string{"GPU-x", "gpu", "NVIDIA H200", "1"}},
		{GPUThrottled, 1, []string{"power cap", "GPU-x", "gpu", "NVIDIA H200", "1"}},
		{GPUErrors, 2, []string{"xid-79", "GPU-x", "gpu"}},
		{GPUErrors, 2, []string{"injected-xid-79", "GPU-x", "gpu"}},
		{GPUErrors, 2, []string{"sxid-12028", "0000:c0:00", "nvswitch"}}, {GPUErrors, 2, []string{"xid-94", "GPU-x GPU-I:05", "gpu"}},
		{CPUBusy, 0.25, nil}, {MemoryBusy, 0.6, nil},
		{HostEvents, 6, []string{"disk-read"}}, {HostTime, 6, []string{"disk-read"}}, {HostBytes, 8192, []string{"disk-read"}},
		{Drops, 9, []string{"thinned"}}, {AgentCPU, 1, nil}, {AgentMemory, 1 << 20, nil}, {AgentRecords, 77, nil},
		{OverheadBudget, 0.02, nil}, {OverheadShare, 0.03, []string{"probes"}}, {OverheadShare, 0.018, []string{"agent"}}, {OverheadShed, 1, []string{"stacks-rare"}}, {OverheadShed, 0, []string{"hot-off"}}, {OverheadFloor, 0.04, nil},
		{AgentBuild, 1, []string{"1.2.3", "gpu-7"}},
		{CopyBytes, 200, []string{"HtoD", "pinned"}},
		{MemoryHeld, 5, []string{"train", "1", "gpu"}}, {MemoryPeak, 6, []string{"train", "1", "gpu"}}, {MemoryOOMs, 2, []string{"train", "1"}}, {MemoryGrowth, 2, []string{"train", "1"}},
		{RollCallAge, 40, nil}, {RankLate, 4, []string{"3"}},
	} {
		near(t, Rows[x.id].Name+" "+join(x.labels), value(s, x.id, x.labels...), x.want)
	}
	for i := range s.Families {
		if r := s.Families[i].Row; r == &Rows[GPUPower] || r == &Rows[SwapBusy] {
			t.Errorf("%s is not known, and there", r.Name)
		}
	}
}

// Snapshots can be read while ticks come.
func TestSnapshotsAreNotChanged(t *testing.T) {
	w := newWorld(t)
	done := make(chan struct{})
	stop := make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			default:
			}
			if s := w.m.Snapshot(); s != nil {
				for i := range s.Families {
					for _, p := range s.Families[i].Points {
						if p.Dist != nil {
							_, _ = p.Dist.Exponential(), p.Dist.Classic()
						}
						_ = join(p.Labels)
					}
				}
			}
		}
	}()
	for i := range 50 {
		w.batch(tick.Batch{Calls: []events.Call{w.call(uint32(1+i%3), launch, events.Call{Duration: int64(i) * 1000, OnCPU: int64(i) * 1000})}})
		w.tick(nil)
	}
	close(stop)
	<-done
}

// A rank has its number in the job, whatever it is in a communicator, unless it inherited the number from a parent
// that the launcher started.
func TestJobRank(t *testing.T) {
	place := func(pid, rank, size uint32) tick.Process {
		return tick.Process{PID: pid, Where: tick.Where{Rank: tick.Numbered(rank), WorldSize: tick.Numbered(size)}}
	}
	id := uint64(0)
	comms := func(pid uint32, ranks ...uint32) tick.State {
		s := tick.State{PID: pid}
		for _, n := range ranks {
			id++
			s.Comms.First = append(s.Comms.First, tick.Comm{ID: id, Ranks: n})
		}
		return s
	}
	now := &tick.Tick{Processes: []tick.Process{{PID: 7, Where: tick.Where{Rank: tick.Numbered(5)}}, {PID: 8}, place(10, 0, 1), place(11, 3, 4), place(12, 6, 8), place(13, 4, 5), place(14, 0, 1)},
		States: []tick.State{comms(7, 2), comms(10, 8, 0, 1), comms(11, 9, 4), comms(12, 8, 2), comms(13, 32, 32, 32), comms(14, 8)}}
	for i := range now.States[4].Comms.First {
		now.States[4].Comms.First[i].ID = 99 // several ranks in one communicator
	}
	now.States[5].Comms.First[0].ID = 0 // unknown
	for want, r := range map[string]tick.Rank{"5": {Rank: 1, PID: 7}, "1": {Rank: 1, PID: 8}, "2": {Rank: 2, PID: 9}, "unknown": {Rank: -1, PID: 8},
		"7": {Rank: 7, PID: 10}, "3": {Rank: 0, PID: 11}, "6": {Rank: 0, PID: 12}, "4": {Rank: 9, PID: 13}, "0": {Rank: 7, PID: 14}} {
		if got := jobRank(now, r); got != want {
			t.Errorf("%+v is %s, want %s", r, got, want)
		}
	}
}
