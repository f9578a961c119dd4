package ledgerexact

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"ingero/internal/stats"
	"ingero/pkg/events"
)

// reading is what the program's clocks showed at one moment: ns.
type reading struct {
	wall, cpu, aside, delay, throttled int64
	switches, preempted                int64
	left, came, woken                  int64
	hog                                [4]int64
}

// truth is what the program knows about one call.
type truth struct {
	inner         int
	before, after reading
	slept, gap    int64 // as planned
	begun, ended  int64 // wall clock inside the call
}

// read takes in what the program printed.
func (r *run) read(text string) error {
	for line := range strings.Lines(text) {
		rest, ok := strings.CutPrefix(line, "call ")
		if !ok {
			continue
		}
		var c truth
		args := []any{&c.inner}
		for _, at := range []*reading{&c.before, &c.after} {
			args = append(args, &at.wall, &at.cpu, &at.aside, &at.delay, &at.throttled,
				&at.switches, &at.preempted, &at.left, &at.came, &at.woken)
			for i := range at.hog {
				args = append(args, &at.hog[i])
			}
		}
		if _, err := fmt.Sscan(rest, append(args, &c.slept, &c.gap, &c.begun, &c.ended)...); err != nil {
			return fmt.Errorf("%q: %w", line, err)
		}
		r.truths = append(r.truths, c)
	}
	return nil
}

// outside is the wall clock time between the clocks' readings and the inside of the call:
// what the clocks show beyond the call is at most this.
func (c *truth) outside() int64 {
	return c.before.aside + c.begun - c.before.wall + c.after.wall - c.ended + c.after.aside
}

// step is by how much the kernel's clock for BPF programs may go back.
const step = int64(20 * time.Microsecond)

// slack is the difference allowed between sums by the ledger and by other clocks. The
// scheduler's clock is as of the last interrupt. The hypervisor's time is in none of
// the thread's clocks; the kernel shows it in steps of 10 ms for each CPU.
func (r *run) slack(wall, switches int64) int64 {
	slack := int64(time.Millisecond) + wall/50 + switches*int64(30*time.Microsecond)
	if r.stolen > 0 {
		slack += r.stolen + int64(20*time.Millisecond)
	}
	return slack
}

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

// thread's records, calls by when they began. The test fails unless each call has one.
func (r *run) own(t testing.TB) {
	t.Helper()
	r.calls = slices.DeleteFunc(r.calls, func(c events.Call) bool { return c.TID != r.pid })
	slices.SortStableFunc(r.calls, func(a, b events.Call) int { return cmp.Compare(a.Start, b.Start) })
	if len(r.calls) != len(r.truths) || len(r.truths) != r.count*(1+r.inner) {
		t.Fatalf("%d records of %d calls, want %d", len(r.calls), len(r.truths), r.count*(1+r.inner))
	}
	for _, d := range r.ticks[len(r.ticks)-1].Drops {
		if d.Count > 0 {
			t.Errorf("dropped: %d, %s", d.Count, d.Reason)
		}
	}
}

// identities checks what is exact: a call's parts sum to its duration, and a gap's to the
// gap; calls and gaps follow each other; a call lasts as long as the program says.
func (r *run) identities(t testing.TB) {
	t.Helper()
	var last *events.Call
	var lastAfter int64
	for i := range r.calls {
		c, want := &r.calls[i], &r.truths[i]
		if c.OnCPU+c.Runnable+c.Throttled+c.Blocked != c.Duration || c.GapOnCPU+c.GapRunnable+c.GapThrottled+c.GapBlocked != c.Gap ||
			min(c.OnCPU, c.Runnable, c.Throttled, c.Blocked, c.GapOnCPU, c.GapRunnable, c.GapThrottled, c.GapBlocked) < 0 {
			t.Errorf("the parts of call %d do not sum to it: %+v", i, c)
		}
		bounds{want.ended - want.begun, want.after.wall - want.before.wall}.check(t, fmt.Sprintf("call %d", i), c.Duration, step)
		if nested := c.Flags&events.CallNested != 0; nested != (want.inner == 1) || nested && c.Gap != 0 {
			t.Errorf("call %d inside another: %t, with a gap of %d", i, nested, c.Gap)
		} else if nested {
			continue
		}
		if last != nil {
			bounds{want.before.wall - lastAfter, c.Start - last.End()}.check(t, fmt.Sprintf("the gap before call %d", i), c.Gap, step)
		}
		last, lastAfter = c, want.after.wall
	}
}

// sums compares where the time of outermost calls and of the gaps before them went with
// the thread's own clocks.
func (r *run) sums(t testing.TB) {
	t.Helper()
	var cpu, waits, throttled, gapCPU, gapWaits bounds
	var got, slept events.Call
	var wall, switches, seen int64
	var last *truth
	for i := range r.calls {
		c, w := &r.calls[i], &r.truths[i]
		if w.inner == 1 {
			continue
		}
		before := last
		last = w
		if c.Flags&events.CallUnseen != 0 {
			continue
		}
		seen++
		wall += w.after.wall - w.before.wall
		switches += w.after.switches + w.after.preempted - w.before.switches - w.before.preempted
		span := func(b *bounds, d int64) { b.add(max(d-w.outside(), 0), d) }
		span(&cpu, w.after.cpu-w.before.cpu)
		span(&waits, w.after.delay-w.before.delay)
		span(&throttled, w.after.throttled-w.before.throttled)
		got.OnCPU, got.Runnable, got.Throttled, got.Blocked = got.OnCPU+c.OnCPU, got.Runnable+c.Runnable, got.Throttled+c.Throttled, got.Blocked+c.Blocked
		slept.Blocked += max(w.slept, 0)
		if before == nil {
			continue
		}
		wall += w.before.wall - before.after.wall
		switches += w.before.switches + w.before.preempted - before.after.switches - before.after.preempted
		room := before.outside() + w.outside()
		gapCPU.add(w.before.cpu-before.after.cpu, w.before.cpu-before.after.cpu+room)
		gapWaits.add(w.before.delay-before.after.delay, w.before.delay-before.after.delay+room)
		got.GapOnCPU, got.GapRunnable = got.GapOnCPU+c.GapOnCPU, got.GapRunnable+c.GapRunnable+c.GapThrottled
	}
	if seen == 0 {
		t.Fatal("the ledger has not seen the switches of any call")
	}
	slack := r.slack(wall, switches)
	cpu.check(t, "on-CPU in calls", got.OnCPU, slack)
	waits.check(t, "runnable and throttled in calls", got.Runnable+got.Throttled, slack)
	throttled.check(t, "throttled in calls", got.Throttled, slack)
	gapCPU.check(t, "on-CPU in gaps", got.GapOnCPU, slack)
	gapWaits.check(t, "runnable in gaps", got.GapRunnable, slack)
	t.Logf("%d of %d calls; on-CPU %v, runnable %v, throttled %v, blocked %v (planned %v); slack %v", seen, len(r.calls),
		time.Duration(got.OnCPU), time.Duration(got.Runnable), time.Duration(got.Throttled), time.Duration(got.Blocked), time.Duration(slept.Blocked), time.Duration(slack))
	r.records(t, switches)
}

// records compares the waits that have records with the sums.
func (r *run) records(t testing.TB, switches int64) {
	t.Helper()
	var sum, waited [events.WaitBlocked + 1]int64
	for i := range r.calls {
		if c := &r.calls[i]; c.Flags&(events.CallNested|events.CallUnseen) == 0 {
			sum[events.WaitRunnable] += c.Runnable
			sum[events.WaitThrottled] += c.Throttled
			sum[events.WaitBlocked] += c.Blocked
		}
	}
	for _, w := range r.inCalls() {
		if w.Flags&events.WaitPrevious == 0 {
			waited[w.State] += w.Duration
		}
	}
	for state, all := range sum {
		// A wait shorter than 20 us has no record. One that is moved to another CPU is in pieces.
		short := r.slack(0, 0) + 6*switches*step
		bounds{all - short, all}.check(t, fmt.Sprintf("waits with records, %v", events.WaitState(state)), waited[state], r.slack(0, 0))
	}
	r.taken(t)
}

// inCalls are the thread's waits inside calls whose every switch was seen.
func (r *run) inCalls() (in []events.Wait) {
	for _, w := range r.waits {
		if w.TID != r.pid {
			continue
		}
		for i := range r.calls {
			c := &r.calls[i]
			if middle := w.Start + w.Duration/2; c.Flags&(events.CallNested|events.CallUnseen) == 0 && middle >= c.Start && middle < c.End() {
				in = append(in, w)
			}
		}
	}
	return in
}

// taken checks that the CPU's time in each runnable wait has owners, and no more than it lasted.
func (r *run) taken(t testing.TB) {
	t.Helper()
	var first *events.Wait
	var all int64
	flush := func() {
		if first != nil && (all > first.Duration || all < first.Duration*97/100-step) {
			t.Errorf("of a runnable wait of %v, %v have an owner: %+v", time.Duration(first.Duration), time.Duration(all), first)
		}
		first, all = nil, 0
	}
	for i := range r.waits {
		w := &r.waits[i]
		if w.TID != r.pid {
			continue
		}
		if w.Flags&events.WaitPrevious == 0 {
			flush()
		}
		if w.State != events.WaitRunnable {
			continue
		}
		if first == nil {
			first = w
		}
		if w.Start != first.Start || w.Duration != first.Duration {
			t.Errorf("%+v continues %+v, with other times", w, first)
		}
		all += w.Taken
	}
	flush()
}

// counts checks the kernel's own sums: they do not depend on any record.
func (r *run) counts(t testing.TB) {
	t.Helper()
	var calls, total, inner, onCPU, runnable, throttled, rounding uint64
	for _, op := range r.ticks[len(r.ticks)-1].Ops {
		if op.PID == r.pid {
			var hist stats.Hist
			for i := range r.calls {
				if r.calls[i].Op == op.Op {
					hist.Record(r.calls[i].Duration, 1)
				}
			}
			if *op.Hist != hist {
				t.Errorf("%v: the kernel's histogram is not that of the records", op.Op)
			}
			calls, total, inner = calls+op.Sum.Done, total+op.Sum.Total, inner+op.Sum.Inner
			onCPU, runnable, throttled = onCPU+op.Sum.OnCPU, runnable+op.Sum.Runnable, throttled+op.Sum.Throttled
		}
	}
	for i := range r.calls {
		c := &r.calls[i]
		if c.Duration>>32 != 0 {
			rounding += 4096 // longer parts are recorded in steps of 1,024 ns
		}
		if c.Flags&events.CallNested != 0 {
			inner -= uint64(c.Duration)
		}
		calls--
		total, onCPU, runnable, throttled = total-uint64(c.Duration), onCPU-uint64(c.OnCPU), runnable-uint64(c.Runnable), throttled-uint64(c.Throttled)
	}
	if calls != 0 || inner != 0 || max(total, onCPU, runnable, throttled)+rounding > 2*rounding {
		t.Errorf("the kernel's sums differ from the records by %d calls, total %d, of inner calls %d, on-CPU %d, runnable %d, throttled %d ns",
			int64(calls), int64(total), int64(inner), int64(onCPU), int64(runnable), int64(throttled))
	}
}

// account checks that the thread's account covers its life, and its calls the records.
func (r *run) account(t testing.TB) {
	t.Helper()
	th, ok := r.thread(r.pid)
	if !ok || !th.Ended || th.Enrolled || th.PID != r.pid || th.Comm != "truth" || len(th.Open) > 0 {
		t.Fatalf("the thread's last account: %t %+v", ok, th)
	}
	var in bounds // the account has what the probes take at the end of a call, too
	unseen := false
	for i := range r.calls {
		c, w := &r.calls[i], &r.truths[i]
		unseen = unseen || c.Flags&events.CallUnseen != 0
		if c.Flags&events.CallNested == 0 {
			in.add(c.Duration, w.after.wall-w.before.wall)
		}
	}
	if !unseen { // an account of which switches are missing is cut to what is possible
		in.check(t, "the account of calls", int64(th.InCalls.Total()), int64(len(r.calls))*step)
	}
	if th.Sync != th.InCalls {
		t.Errorf("in calls %+v, synchronizing %+v", th.InCalls, th.Sync)
	}
	for _, tk := range r.ticks {
		for i := range tk.Threads {
			if th := &tk.Threads[i]; th.InCalls.Total()+th.Between.Total() != uint64(th.Until-th.Since) {
				t.Errorf("an account of %d ns in %d ns: %+v", th.InCalls.Total()+th.Between.Total(), th.Until-th.Since, th)
			}
		}
	}
}

// checked runs all checks that hold for each workload, and its own.
func (r *run) checked(t *testing.T) {
	r.own(t)
	r.identities(t)
	r.sums(t)
	r.counts(t)
	r.account(t)
	if r.check != nil {
		r.check(t, r)
	}
}

// all runs workloads one after the other under one session.
func all(t *testing.T, workloads []workload) {
	dir := build(t)
	rec := &record{}
	var runs []*run
	var pids []uint32
	for i := range workloads {
		r := workloads[i].start(t, dir)
		runs, pids = append(runs, r), append(pids, r.pid)
	}
	wait := watch(t, rec, pids...)
	for _, r := range runs {
		r.play(t)
	}
	wait()
	for _, r := range runs {
		r.ticks = rec.ticks
		for i := range rec.calls {
			if rec.calls[i].PID == r.pid {
				r.calls = append(r.calls, rec.calls[i])
			}
		}
		for i := range rec.waits {
			if rec.waits[i].PID == r.pid {
				r.waits = append(r.waits, rec.waits[i])
			}
		}
		t.Run(r.name, r.checked)
	}
}
