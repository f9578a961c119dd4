package xid

import (
	"fmt"
	"testing"
	"time"

	"ingero/internal/tick"
)

// A fault is released as soon as it is complete, or after Settle at the latest, in order of
// arrival.
func TestAssemblyWaits(t *testing.T) {
	const bus = "0000:75:00"
	log := fault(13, bus, 0, tick.ViaKernelLog, "pid=7, name=a, Ch 1")
	point := fault(13, bus, time.Millisecond, tick.ViaTracepoint, "Ch 1\n")
	lone := fault(31, bus, 0, tick.ViaKernelLog, "pid=8, name=b, Ch 2")
	head := fault(20034, bus, 0, tick.ViaKernelLog, "Fatal, Link 1")
	head.Switch = true
	detail := head
	detail.SetMessage("Data {0x1}")
	lost := fault(OffTheBus, bus, 0, tick.ViaKernelLog, "has fallen off the bus")
	lost.NoCode = true
	written := log
	written.Injected = true
	for _, tt := range []struct {
		name        string
		both        bool
		add         []tick.Xid
		once, later int // released at once, and after all waits
		want        string
	}{
		{"the log alone is read", false, []tick.Xid{log}, 1, 1, "pid=7, name=a, Ch 1"},
		{"the other report has not come", true, []tick.Xid{lone}, 0, 1, "pid=8, name=b, Ch 2"},
		{"both have come", true, []tick.Xid{log, point}, 1, 1, "pid=7, name=a, Ch 1"},
		{"both have come, the other way round", true, []tick.Xid{point, log}, 1, 1, "pid=7, name=a, Ch 1"},
		{"behind one that waits", true, []tick.Xid{lone, log, point}, 0, 2, "pid=8, name=b, Ch 2"},
		{"written by a program", true, []tick.Xid{written}, 1, 1, "pid=7, name=a, Ch 1"},
		{"details", false, []tick.Xid{head, detail, detail}, 0, 1, "Fatal, Link 1; Data {0x1}"},
		{"details without a head", false, []tick.Xid{detail}, 0, 1, "Data {0x1}"},
		{"lost, and its code has not come", false, []tick.Xid{lost, lost}, 0, 1, "has fallen off the bus"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			now := time.Unix(1000, 0)
			a := Assembly{BothSources: tt.both}
			for i := range tt.add {
				a.Add(&tt.add[i], now)
			}
			got := a.Take(nil, now)
			if len(got) != tt.once {
				t.Errorf("at once %d, want %d", len(got), tt.once)
			}
			if d, waits := a.Wait(now); waits != (tt.once < tt.later) || waits && d != Settle {
				t.Errorf("waits %v for %v", waits, d)
			}
			got = a.Take(got, now.Add(Settle))
			if len(got) != tt.later || got[0].Msg != tt.want {
				t.Errorf("later %+v, want %d, the first with %q", got, tt.later, tt.want)
			}
		})
	}
}

// An SXid waits for each further detail as long as for its first.
func TestAssemblyWaitsForDetails(t *testing.T) {
	a, now := Assembly{}, time.Unix(1000, 0)
	for i, msg := range []string{"Fatal, Link 1", "Severity 1 Engine instance 30", "Data {0x1}"} {
		x := fault(20034, "0000:05:00", time.Duration(i), tick.ViaKernelLog, msg)
		x.Switch = true
		if i > 0 {
			now = now.Add(Settle - 1)
			if got := a.Take(nil, now); len(got) != 0 {
				t.Fatalf("before %q it is reported as %q", msg, got[0].Msg)
			}
		}
		a.Add(&x, now)
	}
	const want = "Fatal, Link 1; Severity 1 Engine instance 30; Data {0x1}"
	if got := a.Take(nil, now.Add(Settle)); len(got) != 1 || got[0].Msg != want {
		t.Errorf("reported %+v, want one with %q", got, want)
	}
}

// A fault that came both ways has the tracepoint's time, and a late report of it is dropped.
func TestAssemblyTime(t *testing.T) {
	a, now := Assembly{BothSources: true}, time.Unix(1000, 0)
	log := fault(13, "0000:75:00", time.Second, tick.ViaKernelLog, "pid=7, name=a, Ch 1")
	point := fault(13, "0000:75:00", 0, tick.ViaTracepoint, "Ch 1")
	a.Add(&log, now)
	a.Add(&point, now)
	if got := a.Flush(nil); len(got) != 1 || got[0].Time != point.Time || got[0].SaidPID != 7 {
		t.Errorf("got %+v", got)
	}
	a.Add(&point, now)
	if got := a.Take(nil, now.Add(Settle)); len(got) != 0 {
		t.Fatalf("the log's line is not awaited: %+v", got)
	}
	if got := a.Take(nil, now.Add(lateLog)); len(got) != 1 {
		t.Fatalf("got %+v", got)
	}
	a.Add(&log, now.Add(time.Second))
	if got := a.Flush(nil); len(got) != 0 {
		t.Errorf("reported again: %+v", got)
	}
}

// The state of an Assembly is bounded, however many devices have faults.
func TestAssemblyIsBounded(t *testing.T) {
	a, now := Assembly{BothSources: true}, time.Unix(1000, 0)
	for i := range 2 * maxDevices {
		lost := fault(OffTheBus, fmt.Sprintf("%08x:75:00", i), 0, tick.ViaKernelLog, "x")
		head := lost
		head.Code, head.Switch = 20034, true
		a.Add(&lost, now)
		a.Add(&head, now)
		if got := a.Take(nil, now.Add(Settle)); len(got) != 2 {
			t.Fatalf("device %d: %d faults", i, len(got))
		}
	}
	if len(a.losses) > maxDevices || len(a.heads) > maxDevices || len(a.waiting) != 0 {
		t.Errorf("%d losses, %d heads and %d faults are kept", len(a.losses), len(a.heads), len(a.waiting))
	}
}
