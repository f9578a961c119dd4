package ledger

import (
	"fmt"
	"testing"
	"time"

	"ingero/pkg/events"
)

// report shows the first of what is wrong.
func report(t testing.TB, wrong []string) {
	t.Helper()
	for i, w := range wrong {
		if i == 5 {
			t.Errorf("and %d more", len(wrong)-i)
			return
		}
		t.Error(w)
	}
}

// broken is what is wrong by the ledger's own figures: whatever the machine did, there is
// a record of each call, all parts add up, and nothing is lost.
func (o *outcome) broken() (wrong []string) {
	calls, inner := o.own()
	if len(calls) != len(o.truths) || len(inner) != len(o.inner) {
		return []string{fmt.Sprintf("%d records of calls and %d of calls inside them, want %d and %d",
			len(calls), len(inner), len(o.truths), len(o.inner))}
	}
	wrong = append(o.checkSums(), checkTaken(o.waitsOf(o.pid))...)
	for _, d := range o.ticks[len(o.ticks)-1].Drops {
		if d.Count > 0 {
			wrong = append(wrong, fmt.Sprintf("dropped: %d, %s", d.Count, d.Reason))
		}
	}
	return wrong
}

// own are the calls of the thread, and those inside them, in order.
func (o *outcome) own() (calls, inner []events.Call) {
	for i := range o.calls {
		switch c := &o.calls[i]; {
		case c.TID != o.pid:
		case c.Flags&events.CallNested != 0:
			inner = append(inner, *c)
		default:
			calls = append(calls, *c)
		}
	}
	return calls, inner
}

// waitsOf are the waits of a thread, in order.
func (o *outcome) waitsOf(tid uint32) (waits []events.Wait) {
	for i := range o.waits {
		if o.waits[i].TID == tid {
			waits = append(waits, o.waits[i])
		}
	}
	return waits
}

// checkSums: the parts of each call and gap add up to it exactly, and the calls
// to the kernel's own sums.
func (o *outcome) checkSums() (wrong []string) {
	sums := map[events.Op]parts{}
	var rounding int64 // of the parts of calls that last for seconds
	for i := range o.calls {
		c := &o.calls[i]
		if c.OnCPU+c.Runnable+c.Throttled+c.Blocked != c.Duration || c.GapOnCPU+c.GapRunnable+c.GapThrottled+c.GapBlocked != c.Gap {
			wrong = append(wrong, fmt.Sprintf("the parts of call %d do not add up: %+v", i, c))
		}
		if c.OnCPU < 0 || c.Runnable < 0 || c.Throttled < 0 || c.Blocked < 0 || c.Flags&(events.CallLedgerPartial|events.CallGapPartial) != 0 {
			wrong = append(wrong, fmt.Sprintf("the parts of call %d are not whole: %+v", i, c))
		}
		if c.Duration>>32 != 0 {
			rounding += 2048
		}
		s := sums[c.Op]
		sums[c.Op] = parts{s.wall + c.Duration, s.cpu + c.OnCPU, s.runnable + c.Runnable, s.throttled + c.Throttled, s.blocked + c.Blocked}
	}
	for _, op := range o.ticks[len(o.ticks)-1].Ops {
		if op.PID != o.pid {
			continue
		}
		k := &op.Sum
		kernel := parts{int64(k.Total), int64(k.OnCPU), int64(k.Runnable), int64(k.Throttled), int64(k.Blocked())}
		if off := kernel.off(sums[op.Op]); off > rounding {
			wrong = append(wrong, fmt.Sprintf("%v: the records sum to %+v, the kernel's account is %+v", op.Op, sums[op.Op], kernel))
		}
	}
	return wrong
}

// recorded is how long a wait is at least that has a record.
const recorded = 20 * time.Microsecond

// checkTaken: a runnable wait is all taken, by one thread or several.
func checkTaken(waits []events.Wait) (wrong []string) {
	var first *events.Wait
	var taken int64
	flush := func() {
		if first != nil && (taken > first.Duration || taken < first.Duration*97/100-int64(recorded)) {
			wrong = append(wrong, fmt.Sprintf("of a runnable wait of %v, %v are accounted for", time.Duration(first.Duration), time.Duration(taken)))
		}
		first, taken = nil, 0
	}
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
			wrong = append(wrong, fmt.Sprintf("%+v continues %+v, with other times", w, first))
		}
		taken += w.Taken
	}
	flush()
	return wrong
}
