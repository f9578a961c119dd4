package ledger

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"ingero/pkg/events"
)

// bounds is an interval in which a sum must lie.
type bounds struct{ low, high int64 }

func (b *bounds) add(low, high int64) { b.low, b.high = b.low+low, b.high+high }

func (b bounds) check(t testing.TB, what string, got, slack int64) {
	t.Helper()
	if got < b.low-slack || got > b.high+slack {
		t.Errorf("%s: %v, want between %v and %v (give or take %v)",
			what, time.Duration(got), time.Duration(b.low), time.Duration(b.high), time.Duration(slack))
	}
}

// slack is the allowed difference between the ledger's sums and other clocks. The scheduler's clock
// is as old as the last interrupt. None of the thread's clocks includes stolen time, which the
// kernel reports in steps of 10 ms per CPU. So up to 20 ms of two CPUs stay invisible in any run,
// if the hypervisor ever stole some. An idle virtual CPU resumes slowly: beside a load, 56 switches
// were 75 us late on average, in the worst of some twenty runs. If that is exponential, the mean of
// 56 varies by 10 us: 200 us are twelve times that.
func (r *run) slack(wall, switches int64) int64 {
	slack := int64(ms) + wall/50 + switches*int64(200*time.Microsecond)
	if r.shared {
		slack += int64(r.stolen + 20*ms)
	}
	return slack
}

// sums compares the parts of outermost calls and of the gaps before them with the thread's own
// clocks.
func (r *run) sums(t testing.TB) {
	t.Helper()
	var cpu, waits, throttled, gapCPU, gapWaits bounds
	var got events.Call
	var wall, switches, seen int64
	for i := range r.calls {
		c, in, gap := &r.calls[i], &r.truths[i], &r.gaps[i]
		if in.inner || c.Flags&events.CallUnseen != 0 {
			continue
		}
		seen++
		wall += in.wall + gap.wall
		switches += in.switches() + gap.switches()
		cpu.add(max(in.cpu, 0), in.cpu+in.outside())
		waits.add(max(in.delay-in.outside(), 0), in.delay)
		throttled.add(max(in.throttled-in.outside(), 0), in.throttled)
		gapCPU.add(gap.cpu-gap.outside(), gap.cpu)
		gapWaits.add(gap.delay, gap.delay+gap.outside())
		got.OnCPU, got.Runnable, got.Throttled, got.Blocked = got.OnCPU+c.OnCPU, got.Runnable+c.Runnable, got.Throttled+c.Throttled, got.Blocked+c.Blocked
		got.GapOnCPU, got.GapRunnable = got.GapOnCPU+c.GapOnCPU, got.GapRunnable+c.GapRunnable+c.GapThrottled
	}
	if seen == 0 {
		t.Fatal("the ledger has not seen the switches of any call")
	}
	var waited [events.WaitBlocked + 1]int64
	for _, w := range r.inCalls() {
		if w.Flags&events.WaitPrevious == 0 {
			waited[w.State] += w.Duration
		}
		if w.Flags&events.WaitIdle != 0 {
			// The scheduler does not reread its clock when an idle CPU switches to a thread: a late
			// CPU is on-CPU time by the thread's clock.
			cpu.low -= w.Taken
			waits.high += w.Taken
		}
	}
	slack := r.slack(wall, switches)
	cpu.check(t, "on-CPU in calls", got.OnCPU, slack)
	waits.check(t, "runnable and throttled in calls", got.Runnable+got.Throttled, slack)
	throttled.check(t, "throttled in calls", got.Throttled, slack)
	gapCPU.check(t, "on-CPU in gaps", got.GapOnCPU, slack)
	gapWaits.check(t, "runnable in gaps", got.GapRunnable, slack)
	t.Logf("%d of %d calls; on-CPU %v, runnable %v, throttled %v, blocked %v; slack %v", seen, len(r.calls), time.Duration(got.OnCPU),
		time.Duration(got.Runnable), time.Duration(got.Throttled), time.Duration(got.Blocked), time.Duration(slack))

	for state, all := range map[events.WaitState]int64{
		events.WaitRunnable: got.Runnable, events.WaitThrottled: got.Throttled, events.WaitBlocked: got.Blocked} {
		// A short wait has no record. A wait that moves to another CPU is split.
		short := r.slack(0, 0) + 6*switches*recorded
		bounds{all - short, all}.check(t, fmt.Sprintf("waits with records, %v", state), waited[state], r.slack(0, 0))
	}
}

// blockedAtLeast checks each call's blocked time: at least the program's sleep, less its runnable
// time after it read its clock.
func blockedAtLeast(d time.Duration) func(testing.TB, *run) {
	return func(t testing.TB, r *run) {
		for i := range r.calls {
			c, in := &r.calls[i], &r.truths[i]
			late := in.delay + in.cpu + in.outside() + int64(r.stolen)
			if c.Flags&events.CallUnseen == 0 && c.Blocked < int64(d)-late-r.slack(int64(d), 2) {
				t.Errorf("call %d slept %v and was blocked for %v", i, d, time.Duration(c.Blocked))
			}
		}
	}
}

// onCPUAtLeast checks the on-CPU time of each call against the program's own CPU clock.
func onCPUAtLeast(d time.Duration) func(testing.TB, *run) {
	return func(t testing.TB, r *run) {
		for i := range r.calls {
			c, in := &r.calls[i], &r.truths[i]
			if c.Flags&events.CallUnseen == 0 && c.OnCPU < int64(d)-r.slack(0, in.preemptions+1) {
				t.Errorf("call %d used %v of CPU time and was on a CPU for %v", i, d, time.Duration(c.OnCPU))
			}
		}
	}
}

// gapBlocked checks that the sleep before a call is in its gap.
func gapBlocked(t testing.TB, r *run) {
	var blocked, low, wall int64
	for i := range r.calls {
		gap := &r.gaps[i]
		wall += gap.wall
		low += max(gap.wall-gap.cpu-gap.delay, 0)
		blocked += r.calls[i].GapBlocked
	}
	if blocked < low-r.slack(wall, int64(2*len(r.calls))) || low == 0 {
		t.Errorf("blocked for %v in gaps, want at least %v", time.Duration(blocked), time.Duration(low))
	}
}

// nested checks calls inside others: the calls and their waits name the outer call.
func nested(t testing.TB, r *run) {
	outer := r.calls[0].Op
	for i := range r.calls {
		c := &r.calls[i]
		switch inner := i%2 == 1; {
		case inner && (c.Op.Row().Name != "cuStreamSynchronize" || c.Parent != outer):
			t.Errorf("call %d is %v inside %v", i, c.Op, c.Parent)
		case !inner && (c.Op.Row().Name != "cudaStreamSynchronize" || c.End() < r.calls[i+1].End()):
			t.Errorf("call %d is %v and ends %d ns before the call in it", i, c.Op, r.calls[i+1].End()-c.End())
		}
	}
	for _, w := range r.inCalls() {
		if w.Op != outer {
			t.Errorf("a wait in %v: %+v", w.Op, w)
		}
	}
}

// charged checks that threads on the thread's CPU are charged with the CPU time of their own clocks
// while the thread was runnable.
func charged(t testing.TB, r *run) {
	used, got := make([]bounds, len(r.culprits)), make([]int64, len(r.culprits))
	var nameless, all, high, wall, switches int64
	for i := range r.calls {
		in := &r.truths[i]
		if r.calls[i].Flags&events.CallUnseen != 0 {
			continue
		}
		for n := range used {
			// A culprit's time while the thread was not runnable is not charged.
			d := min(in.hog[n], in.delay)
			used[n].add(max(d-in.outside()-max(in.blocked, 0), 0), d)
		}
		wall += in.wall
		switches += in.switches()
	}
	for _, w := range r.inCalls() {
		if w.State != events.WaitRunnable {
			continue
		}
		if w.Flags&events.WaitOthers != 0 {
			nameless += w.Taken
		}
		for n := range got {
			if w.Who.TID == r.culprits[n].TID {
				got[n] += w.Taken
			}
		}
	}
	slack := r.slack(wall, 2*switches)
	for n, who := range r.culprits {
		all += got[n]
		high += used[n].high
		used[n].low -= nameless
		used[n].check(t, fmt.Sprintf("thread %d is charged with", who.TID), got[n], slack)
	}
	// The kernel may throttle real-time processes so that ordinary threads get a turn.
	if all == 0 && high > slack+nameless {
		t.Errorf("culprits used the CPU for up to %v, and nobody is charged", time.Duration(high))
	}
	r.names(t)
}

// named checks that a process is charged with the time of all its threads, under its first thread's
// names, and that no time in calls belongs to threads without a name, unless they may be those of
// other programs on the machine.
func named(t testing.TB, r *run) {
	charged(t, r)
	for _, w := range r.inCalls() {
		if w.Flags&events.WaitOthers != 0 && !r.strangers() {
			t.Errorf("threads without a name had the CPU for %v: %+v", time.Duration(w.Taken), w)
		}
		if w.Who.PID == r.culprits[0].PID && w.Who.TID != w.Who.PID {
			t.Errorf("a thread is named for its process: %+v", w.Who)
		}
	}
}

// strangers reports whether programs that have no part in the test had the CPU in calls.
func (r *run) strangers() bool {
	return slices.ContainsFunc(r.inCalls(), func(w events.Wait) bool {
		return w.Who.PID != 0 && w.Who.PID != r.pid && !slices.ContainsFunc(r.culprits, func(c events.Thread) bool { return c.PID == w.Who.PID })
	})
}

// ownCrowd checks that time taken by the process's own threads is reported as its own, even if
// there are too many to name each.
func ownCrowd(t testing.TB, r *run) {
	var own int
	for _, w := range r.inCalls() {
		switch {
		case w.Flags&events.WaitOthers == 0:
		case w.Who == (events.Thread{PID: r.pid}):
			own++
		case !r.strangers():
			t.Errorf("threads of no process had the CPU for %v: %+v", time.Duration(w.Taken), w)
		}
	}
	if own == 0 {
		t.Error("no wait has more threads than are named")
	}
}

// throttled checks that time taken by a quota is reported as throttled.
func throttled(t testing.TB, r *run) {
	var got, records int64
	for i := range r.calls {
		got += r.calls[i].Throttled
	}
	for _, w := range r.inCalls() {
		if w.State == events.WaitThrottled {
			records++
			if w.Who != (events.Thread{}) || w.Taken != 0 {
				t.Errorf("throttled by %+v", w)
			}
		}
	}
	// 20 ms of CPU time take 10 periods, and each period allows at most 2 ms on the CPU.
	if got < int64(100*ms) || records == 0 {
		t.Errorf("throttled for %v, in %d waits", time.Duration(got), records)
	}
}

// moved checks that each CPU's process is charged with the waits for its own CPU.
func moved(t testing.TB, r *run) {
	if r.hogged(t) == 0 {
		t.Error("no process is charged")
	}
	r.names(t)
}

// hogged returns the number of waits that name a process of either CPU, after checking that each is
// for that process's CPU.
func (r *run) hogged(t testing.TB) (n int) {
	t.Helper()
	for _, w := range r.inCalls() {
		for i, cpu := range []int{r.cpu, r.other} {
			if w.State != events.WaitRunnable || w.Who.TID != r.culprits[i].TID {
				continue
			}
			if n++; int(w.CPU) != cpu {
				t.Errorf("the process of CPU %d is charged with a wait for CPU %d", cpu, w.CPU)
			}
		}
	}
	return n
}
