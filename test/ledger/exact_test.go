package ledger

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"ingero/internal/stats"
	"ingero/internal/testkit"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

const (
	// step is how far the kernel's clock for BPF programs may go back.
	step = int64(20 * time.Microsecond)
	// recorded is the minimum length of a wait with a record.
	recorded = int64(20 * time.Microsecond)
)

// checkExactly plays workloads and runs all checks that hold on any machine.
func checkExactly(t *testing.T, how tracing, workloads ...workload) {
	for _, r := range trace(t, how, workloads...) {
		t.Run(r.name, func(t *testing.T) {
			r.exact(t)
			r.sums(t)
			r.account(t)
			r.check(t, r)
		})
	}
}

// exact checks what holds for each workload on any machine: the parts of calls and gaps add up,
// calls and gaps follow each other, the records add up to the kernel's own counts, runnable waits
// are charged in full, and nothing is dropped.
func (r *run) exact(t testing.TB) {
	t.Helper()
	for _, d := range r.ticks[len(r.ticks)-1].Drops {
		// Any program can fill the kernel log.
		if d.Count > 0 && !strings.HasPrefix(d.Reason, "kernel-log-") && !testkit.HasNoAccount(d.Reason) {
			t.Errorf("dropped: %d, %s", d.Count, d.Reason)
		}
	}
	r.identities(t)
	r.counts(t)
	r.taken(t)
}

// identities checks that the parts of a call add up to its duration, and those of a gap to the gap,
// and that both last as long as the program reports.
func (r *run) identities(t testing.TB) {
	t.Helper()
	lasts := func(what string, i int, got, low, high int64) {
		t.Helper()
		if !r.how.raw { // the probes' cost is subtracted
			low = 0
		}
		bounds{low, high}.check(t, fmt.Sprintf("%s %d", what, i), got, step)
	}
	var last *events.Call
	for i := range r.calls {
		c, in, gap := &r.calls[i], &r.truths[i], &r.gaps[i]
		if c.OnCPU+c.Runnable+c.Throttled+c.Blocked != c.Duration || c.GapOnCPU+c.GapRunnable+c.GapThrottled+c.GapBlocked != c.Gap ||
			min(c.OnCPU, c.Runnable, c.Throttled, c.Blocked, c.GapOnCPU, c.GapRunnable, c.GapThrottled, c.GapBlocked) < 0 ||
			c.Flags&(events.CallLedgerPartial|events.CallGapPartial) != 0 {
			t.Errorf("the parts of call %d do not sum to it: %+v", i, c)
		}
		lasts("call", i, c.Duration, in.wall, in.wall+in.margin)
		if nested := c.Flags&events.CallNested != 0; nested != in.inner || nested && c.Gap != 0 {
			t.Errorf("call %d inside another: %t, with a gap of %d", i, nested, c.Gap)
		} else if nested {
			continue
		}
		if last != nil {
			lasts("the gap before call", i, c.Gap, gap.wall-gap.margin, c.Start-last.End())
		}
		last = c
	}
}

// counts checks the kernel's own sums and histograms, which do not depend on records.
func (r *run) counts(t testing.TB) {
	t.Helper()
	var done int
	for _, op := range r.ticks[len(r.ticks)-1].Ops {
		if op.PID != r.pid {
			continue
		}
		var hist stats.Hist
		var calls, inner, rounding uint64
		var total tick.Times
		for i := range r.calls {
			c := &r.calls[i]
			if c.Op != op.Op {
				continue
			}
			calls++
			hist.Record(c.Duration, 1)
			total.Add(inside(c))
			if c.Duration>>32 != 0 {
				rounding += 4096 // longer parts are recorded in steps of 1,024 ns
			}
		}
		for i := range r.calls {
			if r.calls[i].Flags&events.CallNested != 0 && r.calls[i].Parent == op.Op {
				inner += uint64(r.calls[i].Duration)
			}
		}
		done += int(calls)
		if *op.Hist != hist {
			t.Errorf("%v: the kernel's histogram is not that of the records", op.Op)
		}
		k := &op.Sum
		off := max(distance(k.Total, total.Total()), distance(k.OnCPU, total.OnCPU), distance(k.Runnable, total.Runnable),
			distance(k.Throttled, total.Throttled), distance(k.Blocked(), total.Blocked))
		if k.Done != calls || k.Inner != inner || off > rounding {
			t.Errorf("%v: %d records sum to %+v, inner calls to %d; the kernel's sums are %+v", op.Op, calls, total, inner, *k)
		}
	}
	if done != len(r.calls) {
		t.Errorf("the kernel counted %d calls of %d", done, len(r.calls))
	}
}

// inside returns the parts of a call.
func inside(c *events.Call) *tick.Times {
	return &tick.Times{OnCPU: uint64(c.OnCPU), Runnable: uint64(c.Runnable), Throttled: uint64(c.Throttled), Blocked: uint64(c.Blocked)}
}

// distance returns the difference of two values.
func distance[T int64 | uint64](a, b T) T { return max(a, b) - min(a, b) }

// taken checks that the CPU's time in each runnable wait has owners, and does not exceed the wait.
func (r *run) taken(t testing.TB) {
	t.Helper()
	var first *events.Wait
	var all int64
	flush := func() {
		if first != nil && (all > first.Duration || all < first.Duration*97/100-recorded) {
			t.Errorf("of a runnable wait of %v, %v have an owner: %+v", time.Duration(first.Duration), time.Duration(all), first)
		}
		first, all = nil, 0
	}
	waits := r.waitsOf(r.pid)
	for i := range waits {
		w := &waits[i]
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

// account checks that the thread's account covers its life, and its calls the records.
func (r *run) account(t testing.TB) {
	t.Helper()
	th, ok := r.thread(r.pid)
	if !ok || !th.Ended || th.Enrolled || th.PID != r.pid || th.Comm != "truth" || len(th.Open) > 0 {
		t.Fatalf("the thread's last account: %t %+v", ok, th)
	}
	var in, gaps tick.Times
	for i := range r.calls {
		if c := &r.calls[i]; c.Flags&events.CallNested == 0 {
			in.Add(inside(c))
			gaps.Add(&tick.Times{OnCPU: uint64(c.GapOnCPU), Runnable: uint64(c.GapRunnable), Throttled: uint64(c.GapThrottled), Blocked: uint64(c.GapBlocked)})
		}
	}
	// An account with missing switches is limited to what is possible. The probes' cost, if
	// subtracted from calls, stays in the account.
	unseen := slices.ContainsFunc(r.calls, func(c events.Call) bool { return c.Flags&events.CallUnseen != 0 })
	// The same holds for a call in which the kernel's clock went back: it has no on-CPU time left.
	cut := slices.ContainsFunc(r.calls, func(c events.Call) bool { return c.OnCPU == 0 })
	if cut && th.InCalls.Total() != in.Total() {
		t.Errorf("in calls %+v, the records sum to %+v, which is another time", th.InCalls, in)
	}
	if !unseen && !cut && r.how.raw && (th.InCalls != in || th.Between.OnCPU < gaps.OnCPU || th.Between.Blocked < gaps.Blocked) {
		t.Errorf("in calls %+v, the records sum to %+v; between calls %+v, the gaps sum to %+v", th.InCalls, in, th.Between, gaps)
	}
	if th.Sync != th.InCalls {
		t.Errorf("in calls %+v, synchronizing %+v", th.InCalls, th.Sync)
	}
	for _, tk := range r.ticks {
		for i := range tk.Threads {
			if th := &tk.Threads[i]; th.PID == r.pid && th.InCalls.Total()+th.Between.Total() != uint64(th.Until-th.Since) {
				t.Errorf("an account of %d ns in %d ns: %+v", th.InCalls.Total()+th.Between.Total(), th.Until-th.Since, th)
			}
		}
	}
}

// eachCall calls f for each outermost call with the thread's waits inside it. A wait is
// inside if it begins in the call and most of it is not before the call. The probes' cost,
// which may be subtracted from a call, can make the call end a little before the wait.
func (r *run) eachCall(f func(i int, in []events.Wait)) {
	waits := r.waitsOf(r.pid)
	for i := range r.calls {
		c := &r.calls[i]
		if c.Flags&events.CallNested != 0 {
			continue
		}
		for len(waits) > 0 && waits[0].Start+waits[0].Duration/2 < c.Start {
			waits = waits[1:]
		}
		n := 0
		for n < len(waits) && waits[n].Start+waits[n].Duration/2 >= c.Start && waits[n].Start < c.End() {
			n++
		}
		f(i, waits[:n])
		waits = waits[n:]
	}
}

// inCalls returns the thread's waits inside calls of which every switch was seen.
func (r *run) inCalls() (all []events.Wait) {
	r.eachCall(func(i int, in []events.Wait) {
		if r.calls[i].Flags&events.CallUnseen == 0 {
			all = append(all, in...)
		}
	})
	return all
}

// names checks that culprits are named with their process and its parent.
func (r *run) names(t testing.TB) {
	t.Helper()
	for _, w := range r.waitsOf(r.pid) {
		i := slices.IndexFunc(r.culprits, func(c events.Thread) bool { return c.TID == w.Who.TID })
		if i < 0 {
			continue
		}
		want := r.culprits[i]
		want.Cgroup, want.Start = w.Who.Cgroup, w.Who.Start
		if w.Who != want {
			t.Errorf("culprit %+v, want %+v", w.Who, want)
		}
	}
}
