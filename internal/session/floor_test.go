package session

import (
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"ingero/internal/govern"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

// reportsOf returns the reports of a kind in a tick.
func reportsOf(x *tick.Tick, kind string) (out []string) {
	for _, r := range x.Reports {
		if r.Kind == kind {
			out = append(out, r.Object+": "+r.Why)
		}
	}
	return out
}

// If counting probes alone exceed the budget, the tick has their cost, once launches have no probe
// or every step has been shed.
func TestFloor(t *testing.T) {
	launch, _ := events.OpByName("cuLaunchKernel")
	outer, _ := events.OpByName("cudaLaunchKernel") // the step launches-once has detached its probes
	sync, _ := events.OpByName("cudaStreamSynchronize")
	for _, tt := range []struct {
		name            string
		launches, syncs uint64 // a second
		want            tick.Floor
		says            string
	}{
		// Counted, a launch takes 500 ns, so 30,000 take 1.5 %, and 60,000 take 3 %.
		{"few launches", 30_000, 10, tick.Floor{}, ""},
		{"many launches", 60_000, 0, tick.Floor{Share: 0.03, Rate: 60_000, Probe: 500}, "cost 3.0 % of the time of the traced processes; --max-overhead allows 2 %. " +
			"Probes need at least 3.0 % here: 500 ns for each of 60000 calls a second; so the most expensive calls have no probe. To keep all"},
		// No step sheds a synchronization, which takes 2 us: 20,000 take 4 %.
		{"many calls that are kept", 0, 20_000, tick.Floor{Share: 0.04, Rate: 20_000, Probe: 2000}, "Probes need at least 4.0 % here: 2000 ns for each of 20000 calls a second; no feature is left to shed"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			src := &costly{share: 0.02, free: outer}
			var b budget
			var x *tick.Tick
			for second := 1; second <= 9; second++ {
				x = &tick.Tick{Time: time.Unix(int64(second), 0).UTC(), Window: time.Second, Processes: []tick.Process{{PID: 1}},
					Ops: []tick.Op{{PID: 1, Op: launch, Last: tick.Counts{Calls: tt.launches, Done: tt.launches}}, {PID: 1, Op: sync, Last: tick.Counts{Calls: tt.syncs, Done: tt.syncs}},
						{PID: 1, Op: outer, Last: tick.Counts{Calls: tt.launches, Done: tt.launches}}}}
				if len(src.counted) > 0 {
					x.Ops[0].Last = tick.Counts{Calls: tt.launches, Unmeasured: tt.launches}
				}
				if n := len(src.shed); n > 0 && govern.Steps[src.shed[n-1].Step].Part == govern.Hot {
					x.Ops[0].Last, x.Ops[2].Last = tick.Counts{}, tick.Counts{}
				}
				var err error
				if x.Overhead, err = b.tick(src, x, 0); err != nil {
					t.Fatal(err)
				}
				b.reportFloor(x)
			}
			if x.Overhead.Floor != tt.want {
				t.Errorf("floor %+v, want %+v; steps %v", x.Overhead.Floor, tt.want, x.Overhead.Shed)
			}
			all := reportsOf(x, "overhead-floor")
			if len(all) > 0 != (tt.says != "") || len(all) > 1 || len(all) == 1 && !strings.Contains(all[0], tt.says) {
				t.Errorf("it says %q, want %q", all, tt.says)
			}
		})
	}
}

// A tick in which probes were attached or detached does not set the floor: it has calls of a part of
// the tick only.
func TestFloorIsOfWholeTicks(t *testing.T) {
	launch, _ := events.OpByName("cuLaunchKernel")
	src := &costly{share: 0.02}
	var b budget
	for second, launches := range []uint64{60_000, 60_000, 10_000} {
		src.spent.Partial = second == 2
		x := &tick.Tick{Time: time.Unix(int64(second), 0), Window: time.Second, Processes: []tick.Process{{PID: 1}},
			Ops: []tick.Op{{PID: 1, Op: launch, Last: tick.Counts{Calls: launches, Unmeasured: launches}}}}
		if _, err := b.tick(src, x, 0); err != nil {
			t.Fatal(err)
		}
	}
	if want := (tick.Floor{Share: 0.03, Rate: 60_000, Probe: 500}); b.floor != want {
		t.Errorf("floor %+v, want %+v", b.floor, want)
	}
}

// A tick is partial if a change of probes began, ran or ended in it.
func TestPartialTicks(t *testing.T) {
	s := &shedder{libs: &libraries{}}
	expect := func(want bool, when string) {
		t.Helper()
		if got := s.partial(); got != want {
			t.Errorf("%s: partial is %v", when, got)
		}
	}
	expect(false, "no change")
	s.libs.applyLater()
	s.libs.work.Wait()
	expect(true, "a change that is complete")
	expect(false, "the tick after it")
	s.libs.changing.Lock()
	s.libs.applyLater()
	expect(true, "a change that has begun")
	expect(true, "a change that runs")
	s.libs.changing.Unlock()
	s.libs.work.Wait()
	expect(true, "a change that has ended")
	expect(false, "the tick after its end")
}

// The report keeps its place: a recording has the reports in the order in which they came.
func TestFloorKeepsItsPlace(t *testing.T) {
	var b budget
	var got [][]string
	for _, others := range [][]string{{"a"}, {"a", "b"}, {"a", "b", "c"}, {}} {
		x := &tick.Tick{Time: time.Unix(1, 0)}
		for _, object := range others {
			x.Reports = append(x.Reports, tick.Report{Object: object})
		}
		if len(got) > 0 {
			x.Overhead.Floor = tick.Floor{Share: 0.04, Rate: 1000, Probe: 40_000}
		}
		b.reportFloor(x)
		var objects []string
		for _, r := range x.Reports {
			objects = append(objects, r.Object)
		}
		got = append(got, objects)
	}
	if want := [][]string{{"a"}, {"a", "b", "probes"}, {"a", "b", "probes", "c"}, {"probes"}}; !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// An operation that loses its probes is reported once, with the time of the first.
func TestUncountedIsReported(t *testing.T) {
	var r reporter
	for pid := range 2000 { // the reports of short processes leave room
		r.add(tick.Report{Kind: "late-attach", Object: strconv.Itoa(pid), Why: "x"})
	}
	if n := len(r.all()); n != maxOfKind {
		t.Errorf("%d reports of one kind, want %d", n, maxOfKind)
	}
	r.uncounted("12:00:00 UTC", []string{"cudaLaunchKernel"})
	r.uncounted("12:01:00 UTC", nil)
	r.uncounted("12:02:00 UTC", []string{"cuLaunchKernel", "cudaLaunchKernel"})
	got := reportsOf(&tick.Tick{Reports: r.all()}, tick.LowerBound)
	if len(got) != 2 || !strings.HasPrefix(got[0], "cudaLaunchKernel: after 12:00:00 UTC") || !strings.HasPrefix(got[1], "cuLaunchKernel: after 12:02:00 UTC") {
		t.Errorf("reports: %q", got)
	}
}
