package probes_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"ingero/internal/probes"
	"ingero/internal/testkit"
	"ingero/pkg/events"
)

// level is a combination of what is shed.
type level struct {
	name     string
	rate     int
	shed     probes.Shed
	launches bool // are counted, not timed
	hot      bool // dear rows have no probes
}

// levels has fixed sampling rates, and the steps of package govern.
var levels = []level{
	{name: "all is asked for", rate: 1},
	{name: "nothing"},
	{name: "one in 10", rate: 10},
	{name: "stacks-rare", shed: probes.Shed{RareStacks: true}},
	{name: "records-thin", shed: probes.Shed{RareStacks: true, Thin: 3}},
	{name: "python-off", shed: probes.Shed{RareStacks: true, Thin: 3, NoPython: true}},
	{name: "launches-counted", shed: probes.Shed{RareStacks: true, Thin: 3, NoPython: true}, launches: true},
	{name: "stacks-off", shed: probes.Shed{RareStacks: true, Thin: 3, NoPython: true, NoStacks: true}, launches: true},
	{name: "records-least", shed: probes.Shed{RareStacks: true, Thin: 6, NoPython: true, NoStacks: true}, launches: true},
	{name: "host-off", shed: probes.Shed{RareStacks: true, Thin: 6, NoPython: true, NoStacks: true, NoHost: true}, launches: true},
	{name: "calls-counted", shed: probes.Shed{RareStacks: true, Thin: 6, NoPython: true, NoStacks: true, NoHost: true, Calls: true}, launches: true},
	{name: "hot-off", shed: probes.Shed{RareStacks: true, Thin: 6, NoPython: true, NoStacks: true, NoHost: true, Calls: true}, launches: true, hot: true},
}

// take sheds what the level sheds.
func (l *level) take(t *testing.T, tr *probes.Tracer, child *testkit.Child, a *probes.Attached) {
	t.Helper()
	if err := tr.Shed(l.shed); err != nil {
		t.Fatal(err)
	}
	lever(t, tr, child, l.launches)
	if !l.hot {
		return
	}
	without := map[int]bool{}
	for i, r := range tr.Rows() {
		without[i] = probes.Expensive(&r)
	}
	if err := a.SetDetached(without); err != nil {
		t.Fatal(err)
	}
}

// times reports whether a row's calls are timed at the level.
func (l *level) times(row *events.Row) bool {
	return !row.EntryOnly && !(l.shed.Calls && probes.Quick(row)) && !(l.launches && row.Class == events.ClassLaunch)
}

// keeps reports whether a call has its own record at the level.
func (l *level) keeps(row *events.Row, failed bool) bool {
	return row.Always() != "" && !row.Polls() || failed && l.times(row)
}

// Each call of each row that answers depend on, and each failed call, has its record at every
// level, without a reader and after launches have filled the ring for other calls.
func TestWhatIsKeptHasRecords(t *testing.T) {
	t.Parallel()
	testkit.NeedBPF(t)
	rows := libraryRows(events.Catalog)
	stubs := testkit.MakeStubs(t, rows, stubVersion)
	library, program := harm(t)
	// A ring of 1 MiB is half full after 6,554 launches of 80 bytes and full after 13,108; later
	// if slow ones go elsewhere. Of the 256 KiB for kept records, the half that waits cannot use
	// holds 1,024 records of 128 bytes.
	const ring, rounds, room = 1 << 20, 140, 1024
	for _, l := range levels {
		t.Run(l.name, func(t *testing.T) {
			tr := tracer(t, probes.Options{RingBytes: ring, SamplingRate: l.rate, Rows: rows, Stacks: probes.StacksSlow})
			child, attached := traced(t, tr, stubs.Library, stubs.Caller)
			flood, _ := traced(t, tr, library, program, "rounds")
			for i := 0; i < rounds || l.rate == 1 && i < 4*rounds && dropped(t, tr)["ring-full"] == 0; i++ {
				flood.Send("")
				flood.Line("called")
			}
			if used := tr.Used(); l.rate < 2 && used <= ring/2 {
				t.Fatalf("%d bytes of %d are full: this tests nothing", used, ring)
			}
			l.take(t, tr, child, attached)
			child.Send("go")
			if err := child.Wait(); err != nil {
				t.Fatal(err)
			}
			saw := map[events.Op][]events.Call{}
			for _, c := range drain(t, tr) {
				if c.PID == uint32(child.PID()) {
					saw[c.Op] = append(saw[c.Op], c)
				}
			}
			made, kept := map[string]int{}, 0
			for _, c := range stubCalls(child) {
				row, failed := stubs.Rows[c.Symbol], made[c.Symbol] > 0
				made[c.Symbol]++
				if !l.keeps(row, failed) {
					continue
				}
				kept++
				if n := recordsOf(&c, saw[row.Op]); n != 1 {
					t.Errorf("%s (%s; failed: %v) has %d records", c.Symbol, row.Always(), failed, n)
				}
			}
			if len(made) != len(stubs.Rows) || kept < len(made) {
				t.Errorf("%d functions of %d were called, %d calls are to have records", len(made), len(stubs.Rows), kept)
			}
			if kept > room {
				t.Errorf("the ring is sure to hold %d of %d records", room, kept)
			}
			if d := dropped(t, tr); d["kept-ring-full"] > 0 || l.rate == 1 && d["ring-full"] == 0 {
				t.Errorf("left out: %v", d)
			}
		})
	}
}

// sums has the kernel's sums of a row.
type sums struct{ calls, done, errors, ns uint64 }

// expect returns the expected sums of the stubs' caller at the level, the number of its calls that
// should have their own records, and the number that do.
func (l *level) expect(s *testkit.Stubs, said []testkit.StubCall, saw []events.Call) (want map[events.Op]*sums, kept, found int) {
	want = map[events.Op]*sums{}
	ops, made := map[events.Op][]events.Call{}, map[string]bool{}
	for _, c := range saw {
		ops[c.Op] = append(ops[c.Op], c)
	}
	for _, c := range said {
		row, failed := s.Rows[c.Symbol], made[c.Symbol]
		made[c.Symbol] = true
		if l.keeps(row, failed) {
			kept++
			found += recordsOf(&c, ops[row.Op])
		}
		if l.hot && probes.Expensive(row) {
			continue
		}
		x := want[row.Op]
		if x == nil {
			x = &sums{}
			want[row.Op] = x
		}
		x.calls++
		if l.times(row) {
			x.done, x.ns = x.done+1, x.ns+uint64(c.After-c.Before)
			if failed {
				x.errors++
			}
		}
	}
	return want, kept, found
}

// With both rings full, each call that should have a record has one or is counted as a drop, and
// the kernel has the count and time of each row's calls, at every level.
func TestFullRingsCountAll(t *testing.T) {
	t.Parallel()
	testkit.NeedBPF(t)
	rows := libraryRows(events.Catalog)
	stubs := testkit.MakeStubs(t, rows, stubVersion)
	for _, l := range levels {
		t.Run(l.name, func(t *testing.T) {
			// The two rings of a page each have no reader.
			tr := tracer(t, probes.Options{RingBytes: os.Getpagesize(), SamplingRate: l.rate, Rows: rows, NoLedger: true})
			child, attached := traced(t, tr, stubs.Library, stubs.Caller)
			l.take(t, tr, child, attached)
			child.Send("go")
			if err := child.Wait(); err != nil {
				t.Fatal(err)
			}
			want, kept, found := l.expect(stubs, stubCalls(child), drain(t, tr))
			if d := dropped(t, tr)["kept-ring-full"]; d == 0 || uint64(found)+d != uint64(kept) {
				t.Errorf("%d records and %d dropped records, for %d calls", found, d, kept)
			}
			if err := tr.Counts(func(c *probes.CountsRow) {
				x := want[tr.Rows()[c.Row].Op]
				if x == nil {
					return
				}
				delete(want, tr.Rows()[c.Row].Op)
				if got := (sums{c.Calls, c.Done, c.Errors, x.ns}); got != *x || c.TotalNs > x.ns || c.TotalNs < x.done*testkit.StubSpin {
					t.Errorf("%s: counted %+v, of %d ns; want %+v", tr.Rows()[c.Row].Name, got, c.TotalNs, *x)
				}
			}); err != nil {
				t.Fatal(err)
			}
			for op := range want {
				t.Errorf("no calls of %v were counted", op)
			}
		})
	}
}

// stubCalls returns the calls that the stubs' caller reports.
func stubCalls(child *testkit.Child) (said []testkit.StubCall) {
	for line := range strings.Lines(child.Stdout()) {
		var c testkit.StubCall
		if n, _ := fmt.Sscanf(line, "call %s %d %d %d", &c.Symbol, &c.Before, &c.After, &c.TID); n == 4 {
			said = append(said, c)
		}
	}
	return said
}

// recordsOf returns the number of records that stand for one call alone.
func recordsOf(c *testkit.StubCall, saw []events.Call) (n int) {
	for i := range saw {
		if saw[i].TID == c.TID && saw[i].Start >= c.Before && saw[i].Start <= c.After && saw[i].Weight == 1 {
			n++
		}
	}
	return n
}

// When the kept ring is full, the call ring takes its records while it has room, in order.
func TestWhatIsKeptTakesBothRings(t *testing.T) {
	t.Parallel()
	testkit.NeedBPF(t)
	library, program := harm(t)
	// Without a reader, 64 KiB hold 546 records of 120 bytes, 256 KiB 2,340 of 112.
	const ring, total = 256 << 10, 2500
	for _, tt := range []struct {
		name string
		rows []events.Row
		slow time.Duration
	}{
		{"a call that answers rest on", testkit.OpRows("cudaStreamSynchronize"), 0},
		{"a call that is slow", ordinary(t, "cudaStreamSynchronize"), 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tr := tracer(t, probes.Options{RingBytes: ring, NoLedger: true, Rows: tt.rows})
			if err := tr.SetSlow(0, tt.slow); err != nil {
				t.Fatal(err)
			}
			pressure(t, tr, library, program, total)
			if used := tr.Used(); used <= ring {
				t.Fatalf("%d bytes wait to be read: this tests nothing", used)
			}
			saw, drops := drain(t, tr), dropped(t, tr)
			if len(saw) != total || drops["kept-ring-full"]+drops["ring-full"]+drops["thinned"] > 0 {
				t.Errorf("%d records of %d calls, left out %v", len(saw), total, drops)
			}
			for i := range saw {
				if i > 0 && saw[i].Start < saw[i-1].End() {
					t.Fatalf("record %d is of a call before that of record %d", i, i-1)
				}
			}
		})
	}
}
