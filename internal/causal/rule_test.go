package causal

import (
	"cmp"
	"strings"
	"testing"

	"ingero/internal/ledger"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

// with returns steps of 15 ms; every nth is longer by long and has a wait.
func with(count, nth int, long int64, w ledger.Wait) []ledger.Step {
	steps := made(count, nth, long, events.Thread{})
	for i := range steps {
		if s := &steps[i]; len(s.Waits) > 0 {
			s.Loss, s.Parts.SyncRunnable = ledger.Loss{}, 0
			w.First, w.Last, w.Count = s.From, s.From+w.NS, 1
			if w.Critical {
				s.Loss = ledger.Loss{Est: w.NS, Min: w.NS, Max: w.NS}
			}
			s.Waits = []ledger.Wait{w}
		}
	}
	return steps
}

var (
	helper = events.Thread{PID: 7, TID: 8, Name: events.NameOf("helper")}
	kwork  = events.Thread{PID: 33, TID: 33, Parent: kthreadd, Name: events.NameOf("kworker/0:1-mm")}
)

// Each kind of wait has the expected rule and culprit.
func TestMatch(t *testing.T) {
	blocked := events.WaitBlocked
	waker := tick.WakerShare{Times: tick.Times{OnCPU: uint64(ms / 10), Runnable: uint64(39 * ms / 10)}, By: stress}
	stolen := tick.WakerShare{Times: waker.Times, Hypervisor: true}
	onDisk := tick.WakerShare{Times: tick.Times{OnCPU: uint64(ms / 10), Blocked: uint64(39 * ms / 10)}, Reason: events.ReasonDisk, Dev: 254 << 20}
	busy := tick.WakerShare{Times: tick.Times{OnCPU: uint64(4 * ms)}}
	worker := events.Thread{PID: 40, TID: 40, Parent: 7, Name: events.NameOf("loader")}
	other := events.Thread{PID: 41, TID: 41, Parent: 7, Name: events.NameOf("loader")}
	crowded := tick.WakerShare{Times: waker.Times, By: other}
	idle := tick.WakerShare{Times: tick.Times{Blocked: uint64(4 * ms)}, Reason: events.ReasonSleep}
	atPoll := tick.WakerShare{Times: idle.Times, Reason: events.ReasonPoll}
	sleepy := tick.WakerShare{Times: tick.Times{Blocked: uint64(40 * ms)}, Reason: events.ReasonSleep}
	for _, tt := range []struct {
		name string
		w    ledger.Wait
		want string // rule, culprit; empty: no chain
	}{
		{"another process", ledger.Wait{State: events.WaitRunnable, Who: stress}, "cpu-taken stress-ng"},
		{"a kernel thread", ledger.Wait{State: events.WaitRunnable, Who: kwork}, "cpu-taken kworker/0:1-mm"},
		{"many short-running threads", ledger.Wait{State: events.WaitRunnable, Flags: events.WaitOthers}, "cpu-taken many short-running threads"},
		{"nobody", ledger.Wait{State: events.WaitRunnable, Flags: events.WaitIdle}, ""},
		{"the hypervisor", ledger.Wait{State: events.WaitRunnable, Reason: events.ReasonHypervisor}, "cpu-stolen the hypervisor"},
		{"own thread", ledger.Wait{State: events.WaitRunnable, Who: helper}, "own-threads helper"},
		{"quota", ledger.Wait{State: events.WaitThrottled}, "cpu-throttled CPU quota"},
		{"a signal", ledger.Wait{State: blocked, Reason: events.ReasonStopped, Who: stress}, "stopped stress-ng"},
		{"disk", ledger.Wait{State: blocked, Reason: events.ReasonDisk, Dev: 8<<20 | 1}, "disk-wait disk 8:1"},
		{"a journal", ledger.Wait{State: blocked, Reason: events.ReasonFile}, "disk-wait disk"},
		{"swap", ledger.Wait{State: blocked, Reason: events.ReasonFault, Flags: events.WaitIO}, "disk-wait disk, for a page of memory"},
		{"a page of another", ledger.Wait{State: blocked, Reason: events.ReasonFault}, ""},
		{"driver", ledger.Wait{State: blocked, Reason: events.ReasonGPU, Op: 0x0110}, "driver-slow GPU driver, in cudaMalloc"},
		{"driver, in no call", ledger.Wait{State: blocked, Reason: events.ReasonGPU}, ""},
		{"lock", ledger.Wait{State: blocked, Reason: events.ReasonLock, Who: helper}, "lock-wait helper"},
		{"sleep", ledger.Wait{State: blocked, Reason: events.ReasonSleep}, ""},
		{"a request", ledger.Wait{State: blocked, Reason: events.ReasonSocket, Who: stress}, ""},
		{"a thread that receives", ledger.Wait{State: blocked, Reason: events.ReasonLock, Who: helper, Waker: atPoll}, "lock-wait helper"},
		{"a thread whose CPU the hypervisor took", ledger.Wait{State: blocked, Reason: events.ReasonLock, Who: helper, Waker: stolen}, "cpu-stolen the hypervisor"},
		{"a thread that had no CPU", ledger.Wait{State: blocked, Reason: events.ReasonLock, Who: helper, Waker: waker}, "cpu-taken stress-ng"},
		{"a process that had no CPU", ledger.Wait{State: blocked, Reason: events.ReasonPipe, Who: kwork, Waker: waker}, "cpu-taken stress-ng"},
		{"a thread that read", ledger.Wait{State: blocked, Reason: events.ReasonLock, Who: helper, Waker: onDisk}, "disk-wait helper"},
		{"a thread that slept", ledger.Wait{State: blocked, Reason: events.ReasonLock, Who: helper, Waker: idle}, "lock-wait helper"},
		{"a worker that computes", ledger.Wait{State: blocked, Reason: events.ReasonPipe, Who: worker, Waker: busy}, "input-wait loader"},
		{"a worker that another worker keeps from a CPU", ledger.Wait{State: blocked, Reason: events.ReasonPipe, Who: worker, Waker: crowded}, "input-wait loader"},
		{"a worker that a stranger keeps from a CPU", ledger.Wait{State: blocked, Reason: events.ReasonPipe, Who: worker, Waker: waker}, "cpu-taken stress-ng"},
		{"a worker that reads", ledger.Wait{State: blocked, Reason: events.ReasonPipe, Who: worker, Waker: onDisk}, "disk-wait loader"},
		{"a worker of which nothing is known", ledger.Wait{State: blocked, Reason: events.ReasonPipe, Who: worker}, ""},
		{"a thread that changes the memory map", ledger.Wait{State: blocked, Reason: events.ReasonMemory, Who: helper, Waker: busy}, "lock-wait helper"},
		{"a thread in whose change of the memory map it had a page fault", ledger.Wait{State: blocked, Reason: events.ReasonFault, Who: helper, Waker: busy}, "lock-wait helper"},
		{"a worker that takes messages", ledger.Wait{State: blocked, Reason: events.ReasonOther, Who: worker, Waker: busy}, "input-wait loader"},
		{"a process that serves page faults", ledger.Wait{State: blocked, Reason: events.ReasonFault, Who: stress, Waker: busy}, "peer-slow stress-ng"},
		{"and sleeps for long", ledger.Wait{NS: 40 * ms, State: blocked, Reason: events.ReasonFault, Who: stress, Waker: sleepy}, "peer-slow stress-ng"},
		{"the kernel, in a page fault", ledger.Wait{State: blocked, Reason: events.ReasonFault, Who: kwork, Waker: busy}, ""},
		{"a page from a disk that another read", ledger.Wait{State: blocked, Reason: events.ReasonFault, Flags: events.WaitIO, Who: stress, Waker: busy}, "disk-wait disk"},
		{"a sleep that another ended", ledger.Wait{State: blocked, Reason: events.ReasonSleep, Who: helper, Waker: waker}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.w.NS = cmp.Or(tt.w.NS, 4*ms)
			e := New(1)
			steps := with(1000*int(4*ms)/int(tt.w.NS), 5, tt.w.NS, tt.w) // 0.8 s in all
			if tt.w.Who == helper && tt.w.State == events.WaitRunnable {
				steps = with(400, 2, 4*ms, tt.w) // a job's own threads may take a little of its time
			}
			e.Add(steps)
			got := chainsOf(e, start+20*s1)
			if tt.want == "" {
				if len(got) != 0 {
					show(t, got)
					t.Error("want silence")
				}
				return
			}
			if len(got) != 1 {
				show(t, got)
				t.Fatalf("%d chains", len(got))
			}
			c := got[0].Culprits[0]
			rule, who, _ := strings.Cut(tt.want, " ")
			if got[0].Rule != rule || c.Thread.Name.String() != who && !strings.HasPrefix(c.What, who) {
				t.Errorf("%s by %q, %q; want %s", got[0].Rule, c.Thread.Name, c.What, tt.want)
			}
			if got[0].Severity != tick.High || got[0].Lost.Seconds() < 0.7 || got[0].Lost.Seconds() > 0.81 {
				t.Errorf("%s, lost %v of 0.8 s", got[0].Severity, got[0].Lost)
			}
		})
	}
}

// A job that hands work over in each step by changing its memory map, by page faults or by a queue is healthy.
func TestActsInEachStep(t *testing.T) {
	for _, reason := range []events.Reason{events.ReasonMemory, events.ReasonFault, events.ReasonOther} {
		for _, who := range []events.Thread{helper, {PID: 40, TID: 40, Parent: 7}, stress} {
			e := New(1)
			busy := tick.WakerShare{Times: tick.Times{OnCPU: uint64(4 * ms)}}
			e.Add(with(1000, 1, 4*ms, ledger.Wait{NS: 4 * ms, State: events.WaitBlocked, Reason: reason, Who: who, Waker: busy}))
			if got := chainsOf(e, start+20*s1); len(got) != 0 {
				show(t, got)
				t.Errorf("%s, by %d: want silence", reason, who.PID)
			}
		}
	}
}

// Kernel workers are one culprit, whatever their numbers.
func TestKernelWorkers(t *testing.T) {
	steps := with(1000, 2, 2*ms, ledger.Wait{NS: 2 * ms, State: events.WaitRunnable})
	for i := range steps {
		for j := range steps[i].Waits {
			k := uint32(30 + i/2%3)
			steps[i].Waits[j].Who = events.Thread{PID: k, TID: k, Parent: kthreadd, Name: events.NameOf("kworker/0:" + string(rune('0'+k)))}
		}
	}
	e := New(1)
	e.Add(steps)
	if got := chainsOf(e, start+20*s1); len(got) != 1 || len(got[0].Culprits) != 3 {
		show(t, got)
		t.Errorf("%d chains", len(got))
	}
}

// Losses that are small or implausible are not reported.
func TestNotEnough(t *testing.T) {
	taken := ledger.Wait{State: events.WaitRunnable, Who: stress}
	at := func(w ledger.Wait, ns int64) ledger.Wait { w.NS = ns; return w }
	for _, tt := range []struct {
		name  string
		steps []ledger.Step
		want  int
	}{
		{"8 ms of which 0.4 ms count", with(1000, 2, 400*us, at(taken, 8*ms)), 0},
		{"8 ms of which 4 ms count", with(1000, 2, 4*ms, at(taken, 8*ms)), 1},
		{"under 100 ms in a second", with(60, 3, 4*ms, at(taken, 4*ms)), 0},
		{"over 100 ms in a second", with(60, 2, 4*ms, at(taken, 4*ms)), 1},
		{"two slow steps", with(400, 250, 90*ms, at(taken, 90*ms)), 0},
		{"two very slow steps", with(400, 250, 200*ms, at(taken, 200*ms)), 1},
		{"each a little", with(3000, 1, 140*us, at(taken, 140*us)), 0},
		{"each a little, but for a few", append(with(2000, 1, 140*us, at(taken, 140*us)), moved(with(1000, 100, 3*ms, at(taken, 3*ms)), 32*s1)...), 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e := New(1)
			e.Add(tt.steps)
			if got := chainsOf(e, tt.steps[len(tt.steps)-1].To); len(got) != tt.want {
				show(t, got)
				t.Errorf("%d chains, want %d", len(got), tt.want)
			}
		})
	}
}

// A call is slow from twice its usual time on, if the step gets as much longer.
func TestCallSlow(t *testing.T) {
	calls := func(usual, slow int64) []ledger.Step {
		steps := made(2000, 0, 0, events.Thread{})
		var late int64
		for i := range steps {
			s := &steps[i]
			own := usual
			if i%4 == 0 {
				own = slow
			}
			s.From += late
			late += own - usual
			s.To += late
			s.Ops = []ledger.OpTime{{Op: 0x0121, Size: 20, Count: 1, Seen: 1, NS: own, Own: own}}
		}
		return steps
	}
	for _, tt := range []struct {
		name        string
		usual, slow int64
		want        int
	}{
		{"ten times", 300 * us, 3 * ms, 1},
		{"not twice", 2 * ms, 3900 * us, 0},
		{"twice", 2 * ms, 4100 * us, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e := New(1)
			steps := calls(tt.usual, tt.slow)
			e.Add(steps)
			got := chainsOf(e, steps[len(steps)-1].To)
			if len(got) != tt.want {
				show(t, got)
				t.Fatalf("%d chains, want %d", len(got), tt.want)
			}
			if tt.want > 0 && (got[0].Rule != "call-slow" || got[0].Op != 0x0121) {
				t.Errorf("%s in %s", got[0].Rule, got[0].Op)
			}
		})
	}
}

// Seconds of a thread without steps count half, and not at all if another thread of the process has
// steps.
func TestPeriods(t *testing.T) {
	var seconds []ledger.Step
	for i := range int64(30) {
		seconds = append(seconds, ledger.Step{PID: 7, TID: 70, From: start + i*s1, To: start + (i+1)*s1, Period: true,
			Waits: []ledger.Wait{{NS: 300 * ms, Count: 90, First: start + i*s1, Last: start + i*s1 + ms, State: events.WaitRunnable, Who: stress}}})
	}
	e := New(1)
	e.Add(seconds)
	got := chainsOf(e, start+30*s1)
	if len(got) != 1 || got[0].Lost.Seconds() != 4.5 || got[0].LostMin != 0 || got[0].LostMax.Seconds() != 9 || got[0].Confidence != 0.5 {
		show(t, got)
		t.Fatalf("%d chains", len(got))
	}
	e = New(1)
	e.Add(seconds)
	e.Add(made(2000, 0, 0, stress))
	if got := chainsOf(e, start+30*s1); len(got) != 0 {
		show(t, got)
		t.Errorf("%d chains", len(got))
	}
}

// A small loss beside one ten times as large is not reported.
func TestDwarfed(t *testing.T) {
	steps := with(2000, 4, 10*ms, ledger.Wait{NS: 10 * ms, State: events.WaitRunnable, Who: stress})
	for i := range steps {
		if i%4 == 0 && i%8 == 0 {
			steps[i].Waits = append(steps[i].Waits, ledger.Wait{NS: 1800 * us, Count: 1, State: events.WaitThrottled})
		}
	}
	e := New(1)
	e.Add(steps)
	got := chainsOf(e, steps[len(steps)-1].To)
	if len(got) != 1 || got[0].Rule != "cpu-taken" {
		show(t, got)
		t.Errorf("%d chains", len(got))
	}
}

// Small programs are not reported beside a large one.
func TestSeveralBesideOne(t *testing.T) {
	steps := with(3000, 2, 4*ms, ledger.Wait{NS: 4 * ms, State: events.WaitRunnable, Who: stress})
	for i := range steps {
		if w := steps[i].Waits; len(w) > 0 && i%10 == 0 {
			k := uint32(i / 10 % 40)
			w[0].Who = events.Thread{PID: 1000 + k, TID: 1000 + k, Name: events.NameOf("prog" + string(rune('A'+k)))}
		}
	}
	e := New(1)
	e.Add(steps)
	if got := chainsOf(e, steps[len(steps)-1].To); len(got) != 1 || got[0].Culprits[0].Thread != stress {
		show(t, got)
		t.Errorf("%d chains", len(got))
	}
}

// Culprits keep their names while others come and go.
func TestCulpritsStay(t *testing.T) {
	e := New(1)
	for minute := range int64(4) {
		for second := range int64(60) {
			who := stress
			if second%2 == 0 {
				n := uint32(1000 + minute*60 + second)
				who = events.Thread{PID: n, TID: n, Name: events.NameOf("short")}
			}
			at := (minute*60 + second) * s1
			e.Add(moved(with(60, 3, 3*ms, ledger.Wait{NS: 3 * ms, State: events.WaitRunnable, Who: who}), at))
			for _, c := range chainsOf(e, start+at+s1) {
				for _, x := range c.Culprits {
					if x.Thread != stress && x.Thread.Name != events.NameOf("short") || x.Thread.PID != x.Thread.TID && x.Thread != stress {
						t.Fatalf("culprit %+v", x)
					}
				}
				if c.ID == chainID(7, "cpu-taken", "stress-ng") != (c.Culprits[0].Thread == stress) {
					t.Fatalf("%s is by %+v", c.ID, c.Culprits[0].Thread)
				}
			}
		}
	}
	if got := chainsOf(e, start+240*s1); len(got) != 2 {
		show(t, got)
		t.Errorf("%d chains", len(got))
	}
}

// Other parts that grew are not ruled out.
func TestNotIt(t *testing.T) {
	for _, tt := range []struct {
		name     string
		gpu      int64 // extra GPU time in slow steps
		throttle bool
		want     string
	}{
		{"taken alone", 0, false, "GPU (15.0 ms a step, as before),throttling,signals,own threads,disk,locks"},
		{"the GPU was slower too", 5 * ms, false, "throttling,signals,own threads,disk,locks"},
		{"throttled too", 0, true, "GPU (15.0 ms a step, as before),signals,own threads,disk,locks"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			steps := with(1000, 3, 3*ms, ledger.Wait{NS: 3 * ms, State: events.WaitRunnable, Who: stress})
			for i := range steps {
				s := &steps[i]
				s.Parts.GPUWait = 15 * ms
				if len(s.Waits) > 0 {
					s.Parts.GPUWait += tt.gpu
					if tt.throttle {
						s.Waits = append(s.Waits, ledger.Wait{NS: 1 * ms, State: events.WaitThrottled})
					}
				}
			}
			e := New(1)
			e.Add(steps)
			for _, c := range chainsOf(e, start+20*s1) {
				if got := strings.Join(c.NotIt, ","); c.Rule == "cpu-taken" && got != tt.want {
					t.Errorf("not %s; want %s", got, tt.want)
				}
			}
		})
	}
}

// Nine steps are too few to learn a baseline.
func TestLearn(t *testing.T) {
	for count, want := range map[int]int{9: 0, 20: 1} {
		steps := with(count, 3, 100*ms, ledger.Wait{NS: 100 * ms, State: events.WaitBlocked, Reason: events.ReasonDisk})
		e := New(1)
		e.Add(steps)
		if got := chainsOf(e, steps[count-1].To); len(got) != want {
			show(t, got)
			t.Errorf("%d steps: %d chains, want %d", count, len(got), want)
		}
	}
}
