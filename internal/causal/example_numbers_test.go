package causal

import (
	"reflect"
	"testing"
	"time"

	"ingero/internal/ledger"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

// The example of the package comment gives the documented numbers.
func TestExampleInNumbers(t *testing.T) {
	e := New(1)
	now := int64(start)
	for i := range 200 {
		s := ledger.Step{PID: 7, TID: 7, From: now, To: now + 100*ms, Op: 0x0140, Kind: 1}
		wait := func(w ledger.Wait) {
			w.Count, w.First, w.Last = 1, s.From, s.From+w.NS
			s.Waits = append(s.Waits, w)
		}
		wait(ledger.Wait{State: events.WaitBlocked, Reason: events.ReasonDisk, NS: 5 * ms})
		if i%4 == 0 {
			wait(ledger.Wait{State: events.WaitRunnable, Who: stress, NS: 40 * ms})
			s.To += 20 * ms
		}
		if i%8 == 0 {
			wait(ledger.Wait{State: events.WaitThrottled, NS: 20 * ms})
			s.To += 10 * ms
		}
		now = s.To
		e.Add([]ledger.Step{s})
	}
	at := tick.Tick{Time: time.Unix(0, now)}

	steps := e.window(&at).stepsOf(7)
	for _, tt := range []struct{ length, normal, excess, lost int64 }{{100 * ms, 100 * ms, 0, 0}, {120 * ms, 100 * ms, 40 * ms, 20 * ms}, {130 * ms, 100 * ms, 60 * ms, 30 * ms}} {
		for i := range steps {
			if x := &steps[i]; x.length == tt.length && (x.normal != tt.normal || x.sum != tt.excess || x.lost != tt.lost) {
				t.Fatalf("a step of %v: normal is %v, excess %v, lost %v; want %+v", x.length, x.normal, x.sum, x.lost, tt)
			}
		}
	}

	at.Chains, _ = e.Tick(&at)
	if len(at.Chains) != 2 {
		show(t, at.Chains)
		t.Fatalf("%d chains, want 2", len(at.Chains))
	}
	const d = time.Millisecond
	for i, want := range []tick.Chain{
		{Rule: "cpu-taken", Severity: tick.High, Lost: 1000 * d, LostMin: 850 * d, LostMax: 1150 * d, Excess: 1250 * d, Slow: 50, Confidence: 0.8, Without: 110 * d},
		{Rule: "cpu-throttled", Severity: tick.Low, Lost: 250 * d, LostMin: 212500 * time.Microsecond, LostMax: 287500 * time.Microsecond,
			Excess: 1250 * d, Slow: 25, Confidence: 1. / 3, Without: 120 * d},
	} {
		want.Window, want.Steps, want.StepP50, want.StepP99 = 21250*d, 200, 100*d, 130*d
		c := &at.Chains[i]
		got := tick.Chain{Rule: c.Rule, Severity: c.Severity, Lost: c.Lost, LostMin: c.LostMin, LostMax: c.LostMax, Window: c.Window, Excess: c.Excess,
			Steps: c.Steps, Slow: c.Slow, Confidence: c.Confidence, StepP50: c.StepP50, StepP99: c.StepP99, Without: c.Without}
		if off := got.Confidence - want.Confidence; off > 1e-9 || off < -1e-9 {
			t.Errorf("%s: confidence %v, want %v", c.Rule, got.Confidence, want.Confidence)
		}
		if got.Confidence = want.Confidence; !reflect.DeepEqual(got, want) {
			t.Errorf("got  %+v\nwant %+v", got, want)
		}
	}
}
