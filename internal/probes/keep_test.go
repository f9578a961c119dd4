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

// level is what is left out of all that is traced.
type level struct {
	name     string
	rate     int
	shed     probes.Shed
	launches bool // are counted, not timed
	hot      bool // what is dear has no probes
}

// levels are the fixed rates, and the steps as package govern has them.
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

// take leaves out what the level leaves out.
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
		without[i] = probes.Dear(&r)
	}
	if err := a.Leave(without); err != nil {
		t.Fatal(err)
	}
}

// times tells whether the returns of a row's calls are watched at the level.
func (l *level) times(row *events.Row) bool {
	return !row.EntryOnly && !(l.shed.Calls && probes.Quick(row)) && !(l.launches && row.Class == events.ClassLaunch)
}

// keeps tells whether a call has its own record at the level.
func (l *level) keeps(row *events.Row, failed bool) bool {
	return row.Always() != "" && !row.Polls() || failed && l.times(row)
}

// Each call that an answer rests on, of each row, and each that fails has its record, whatever
// is left out, while nobody reads and launches have filled the ring for all others.
func TestWhatIsKeptHasRecords(t *testing.T) {
	t.Parallel()
	testkit.NeedBPF(t)
	rows := libraryRows(events.Catalog)
	stubs := testkit.MakeStubs(t, rows, stubVersion)
	library, program := harm(t)
	// Of 2 MiB half is full after 13,107 launches of 80 bytes, all after 26,214, and later where
	// some are slow and go elsewhere. Of the 512 KiB
	// for what is kept the half that no wait can have has room for 2,184 records of 120 bytes.
	const ring, rounds = 2 << 20, 280
	for _, l := range levels {
		t.Run(l.name, func(t *testing.T) {
			tr := tracer(t, probes.Options{RingBytes: ring, SamplingRate: l.rate, Rows: rows, Stacks: probes.StacksSlow})
			child, attached := traced(t, tr, stubs.Library, stubs.Caller)
			flood, _ := traced(t, tr, library, program, "rounds")
			for i := 0; i < rounds || l.rate == 1 && i < 4*rounds && dropped(t, tr)["ring-full"] == 0; i++ {
				flood.Say("")
				flood.Line("called")
			}
			if used := tr.Used(); l.rate < 2 && used <= ring/2 {
				t.Fatalf("%d bytes of %d are full: this tests nothing", used, ring)
			}
			l.take(t, tr, child, attached)
			child.Say("go")
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
			if d := dropped(t, tr); d["kept-ring-full"] > 0 || l.rate == 1 && d["ring-full"] == 0 {
				t.Errorf("left out: %v", d)
			}
		})
	}
}

// sums are the kernel's of a row.
type sums struct{ calls, done, errors, ns uint64 }

// expect returns the sums of what the stubs' caller did at the level, how many of its calls
// are to have records of their own, and how many have one.
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
		if l.hot && probes.Dear(row) {
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

// Where both rings are full each call that should have a record has one or is counted as one
// that found no room, and the kernel has the count and the time of each row's calls, whatever
// is left out.
func TestFullRingsCountAll(t *testing.T) {
	t.Parallel()
	testkit.NeedBPF(t)
	rows := libraryRows(events.Catalog)
	stubs := testkit.MakeStubs(t, rows, stubVersion)
	for _, l := range levels {
		t.Run(l.name, func(t *testing.T) {
			// Nobody reads two rings of a page each.
			tr := tracer(t, probes.Options{RingBytes: os.Getpagesize(), SamplingRate: l.rate, Rows: rows, NoLedger: true})
			child, attached := traced(t, tr, stubs.Library, stubs.Caller)
			l.take(t, tr, child, attached)
			child.Say("go")
			if err := child.Wait(); err != nil {
				t.Fatal(err)
			}
			want, kept, found := l.expect(stubs, stubCalls(child), drain(t, tr))
			if d := dropped(t, tr)["kept-ring-full"]; d == 0 || uint64(found)+d != uint64(kept) {
				t.Errorf("%d records and %d that found no room, of %d calls", found, d, kept)
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

// stubCalls returns what the stubs' caller says that it did.
func stubCalls(child *testkit.Child) (said []testkit.StubCall) {
	for line := range strings.Lines(child.Stdout()) {
		var c testkit.StubCall
		if n, _ := fmt.Sscanf(line, "call %s %d %d %d", &c.Symbol, &c.Before, &c.After, &c.TID); n == 4 {
			said = append(said, c)
		}
	}
	return said
}

// recordsOf returns how many records a call has that stand for it alone.
func recordsOf(c *testkit.StubCall, saw []events.Call) (n int) {
	for i := range saw {
		if saw[i].TID == c.TID && saw[i].Start >= c.Before && saw[i].Start <= c.After && saw[i].Weight == 1 {
			n++
		}
	}
	return n
}

// Where the ring of what is kept is full, the other one takes what it has room for, and the
// order stays.
func TestWhatIsKeptTakesBothRings(t *testing.T) {
	t.Parallel()
	testkit.NeedBPF(t)
	library, program := harm(t)
	// Nobody reads: 64 KiB have room for 546 records of 120 bytes, 256 KiB for 2,340 of 112.
	const ring, total = 256 << 10, 2500
	for _, tt := range []struct {
		name string
		rows []events.Row
		slow time.Duration
	}{
		{"a call that answers rest on", rowsNamed(t, "cudaStreamSynchronize"), 0},
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
