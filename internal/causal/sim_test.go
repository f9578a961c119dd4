package causal

import (
	"math"
	"math/rand/v2"

	"ingero/internal/testkit"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

const us, ms, s1 = int64(1e3), int64(1e6), int64(1e9)

// start is the time when scenarios begin: no round second.
const start = 1_700_000_000*s1 + 123_456_789

// hog is a program that shares the victim's CPU in turns.
type hog struct {
	who      events.Thread
	slice    int64 // length of a turn
	every    int64 // interval of the turns; 0: whenever possible
	from, to int64 // since the start
}

// quota is the quota of a cgroup.
type quota struct{ run, period int64 }

// simThread is a thread of a simulated program on a simulated CPU and GPU: it makes the records
// that the kernel would make.
type simThread struct {
	pid, tid uint32
	now      int64
	gpuFree  int64 // end of the queued GPU work
	hogs     []*hog
	quota    quota
	ran      int64 // CPU time since the hog's last turn
	turnAt   int64 // start of the hog's next turn
	used     int64 // of the quota, in its period
	next     map[*hog]int64
	counted  int64      // since the start: when launches begin to be counted and not timed; 0: never
	hostOnly bool       // hogs do not run during the synchronize
	off      bool       // no hogs, no faults
	work     *rand.Rand // the program's randomness
	bad      *rand.Rand // the faults' randomness
	calls    []events.Call
	waits    []events.Wait
	lastEnd  int64
	gap, in  sums
	op       events.Op
	syncing  bool
	account  tick.Thread
	steps    []stepSpan    // active shedding levels
	hidden   []events.Call // calls without a record
	launched uint16        // since the last call that reported launches
	thin     *rand.Rand
	held     []uint64 // addresses that calls returned
	given    uint64
}

// sums are the parts of a call or a gap.
type sums struct{ cpu, run, thr, blk int64 }

func newSimThread(pid, tid uint32, seed uint64) *simThread {
	return &simThread{
		pid: pid, tid: tid, now: start, gpuFree: start, next: map[*hog]int64{},
		work: rand.New(rand.NewPCG(seed, uint64(tid))), bad: rand.New(rand.NewPCG(seed, uint64(tid)+1)),
		thin:    rand.New(rand.NewPCG(seed, uint64(tid)+2)),
		account: tick.Thread{PID: pid, TID: tid, Since: start},
	}
}

func (t *simThread) parts() *sums {
	if t.op != 0 {
		return &t.in
	}
	return &t.gap
}

// use takes CPU time, with delays from rivals.
func (t *simThread) use(d int64) { t.spin(d, math.MaxInt64) }

// spin takes CPU time until a deadline at most.
func (t *simThread) spin(d, until int64) {
	for d > 0 && t.now < until {
		run := min(d, until-t.now)
		h := t.rival()
		if h != nil && h.every == 0 {
			run = min(run, max(t.turnAt-t.ran, 1))
		} else if h != nil {
			run = min(run, max(t.next[h]-t.now, 1))
		}
		if t.limited() {
			run = min(run, max(t.quota.run-t.used, 1))
		}
		t.now += run
		t.ran += run
		t.used += run
		t.parts().cpu += run
		d -= run
		t.turn(h)
	}
}

func (t *simThread) limited() bool { return t.quota.period > 0 && !t.off }

// rival returns the hog that wants the CPU, if any.
func (t *simThread) rival() *hog {
	if t.off || t.hostOnly && t.syncing {
		return nil
	}
	var first *hog
	for _, h := range t.hogs {
		if at := t.now - start; at < h.from || at >= h.to {
			continue
		}
		if h.every == 0 {
			return h
		}
		if t.next[h] == 0 {
			t.next[h] = t.now + int64(float64(h.every)*t.bad.ExpFloat64())
		}
		if first == nil || t.next[h] < t.next[first] {
			first = h
		}
	}
	return first
}

// turn gives the CPU to a hog when it is its turn.
func (t *simThread) turn(h *hog) {
	if t.limited() {
		period := (t.now - start) / t.quota.period
		if t.used >= t.quota.run {
			t.wait(events.Wait{State: events.WaitThrottled}, start+(period+1)*t.quota.period-t.now)
			t.used = 0
		}
	}
	switch {
	case h == nil:
	case h.every == 0 && t.ran >= t.turnAt:
		t.runnable(h, int64(float64(h.slice)*(0.6+0.8*t.bad.Float64())))
	case h.every > 0 && t.now >= t.next[h]:
		t.next[h] = 0
		t.runnable(h, int64(float64(h.slice)*t.bad.ExpFloat64()))
	}
}

func (t *simThread) runnable(h *hog, d int64) {
	t.ran, t.turnAt = 0, int64(float64(h.slice)*(0.6+0.8*t.bad.Float64()))
	w := events.Wait{State: events.WaitRunnable, Who: h.who, Taken: d}
	if h.who.Name == events.NameOf("hypervisor") {
		w.Who, w.Reason = events.Thread{}, events.ReasonHypervisor
	}
	t.wait(w, d)
}

// wait advances the time off the CPU, and records the wait as the kernel does.
func (t *simThread) wait(w events.Wait, d int64) {
	if d <= 0 {
		return
	}
	p := t.parts()
	switch w.State {
	case events.WaitRunnable:
		p.run += d
	case events.WaitThrottled:
		p.thr += d
	default:
		p.blk += d
	}
	w.Start, w.Duration, w.PID, w.TID, w.Op = t.now, d, t.pid, t.tid, t.op
	t.now += d
	if d >= 20*us {
		t.waits = append(t.waits, w)
	}
	if p := (t.now - start) / max(t.quota.period, 1); t.limited() && (t.now-d-start)/t.quota.period != p {
		t.used = 0
	}
}

// block waits for something until a time, and then for the CPU if a hog has it.
func (t *simThread) block(w events.Wait, until int64) {
	w.State = events.WaitBlocked
	t.wait(w, until-t.now)
	if h := t.rival(); h != nil && h.every == 0 && t.bad.Float64() < 0.5 {
		t.runnable(h, t.bad.Int64N(h.slice))
	}
	t.ran = 0
}

// call makes a traced call that runs f.
func (t *simThread) call(op string, bytes uint64, f func()) {
	o := testkit.Op(op)
	begin := t.now
	t.op, t.in = o, sums{}
	waits := len(t.waits)
	f()
	c := events.Call{
		Start: begin, Duration: t.now - begin, OnCPU: t.in.cpu, Runnable: t.in.run, Throttled: t.in.thr, Blocked: t.in.blk,
		PID: t.pid, TID: t.tid, Op: o, Weight: 1, Args: [events.MaxArgs]uint64{bytes},
	}
	if len(t.calls) > 0 {
		c.Gap, c.GapOnCPU, c.GapRunnable, c.GapThrottled, c.GapBlocked = begin-t.lastEnd, t.gap.cpu, t.gap.run, t.gap.thr, t.gap.blk
	}
	t.op = 0
	if t.hide(&c, waits) {
		return
	}
	t.gap, t.lastEnd = sums{}, t.now
	t.calls = append(t.calls, c)
}

// launch queues GPU work.
func (t *simThread) launch(cpu, gpu int64) {
	if t.counted != 0 && t.now-start >= t.counted {
		op, _ := events.OpByName("cudaLaunchKernel")
		t.calls = append(t.calls, events.Call{Start: t.now, PID: t.pid, TID: t.tid, Op: op, Weight: 1, Flags: events.CallUnmeasured})
		t.use(cpu) // in the gap before the next call
	} else {
		t.call("cudaLaunchKernel", 0, func() { t.use(cpu) })
	}
	t.gpuFree = max(t.gpuFree, t.now) + gpu
}

// sync waits for the GPU.
func (t *simThread) sync(spin bool) {
	t.syncing = true
	defer func() {
		if t.syncing = false; t.hostOnly {
			t.ran = 0
		}
	}()
	t.call("cudaStreamSynchronize", 0, func() {
		t.use(3 * us)
		if t.gpuFree > t.now && !spin {
			t.block(events.Wait{Reason: events.ReasonPoll, Flags: events.WaitByIRQ}, t.gpuFree)
		}
		t.spin(max(t.gpuFree-t.now, 0), t.gpuFree)
		t.use(4 * us)
	})
}

// vary returns d changed by a random share.
func (t *simThread) vary(d int64, share float64) int64 {
	return int64(float64(d) * (1 + share*(2*t.work.Float64()-1)))
}
