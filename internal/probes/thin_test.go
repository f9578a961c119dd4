package probes_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

	"ingero/internal/decode"
	"ingero/internal/probes"
	"ingero/internal/testkit"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

// sampled counts the records that were kept.
type sampled struct{ fast, failed, slow, weight, bad uint64 }

func (s *sampled) take(b []byte) {
	var batch tick.Batch
	if err := decode.Record(&batch, b, decode.Clock{}); err != nil {
		s.bad++
		return
	}
	for _, c := range batch.Calls {
		s.weight += uint64(c.Weight)
		switch {
		case c.Flags&events.CallFailed != 0:
			s.failed++
		case c.Duration >= 100_000:
			s.slow++
		default:
			s.fast++
		}
	}
}

// traced starts a program that waits for a line, traced, with probes in its library.
func traced(t *testing.T, tr *probes.Tracer, library, program string, args ...string) (*testkit.Child, *probes.Attached) {
	t.Helper()
	child := testkit.Start(t, exec.Command(program, args...))
	child.Line("ready")
	if err := tr.Trace(uint32(child.PID()), probes.Target{}); err != nil {
		t.Fatal(err)
	}
	return child, attach(t, tr, library, events.LibCudart)
}

// pressure runs the program that makes total calls: one in a hundred fails, one takes 200 us, and
// the others do nothing.
func pressure(t *testing.T, tr *probes.Tracer, library, program string, total int) *probes.Attached {
	t.Helper()
	child, a := traced(t, tr, library, program, fmt.Sprint("pressure=", total))
	child.Send("go")
	if err := child.Wait(); err != nil {
		t.Fatal(err)
	}
	return a
}

// Once the ring is half full, fast calls are thinned, but none that take 100 us or fail; weights
// make up for thinned calls, and counts are exact.
func TestThinningKeepsWhatMatters(t *testing.T) {
	t.Parallel()
	testkit.NeedBPF(t)
	library, program := harm(t)
	// The rings have no reader. The one for fast calls is half full after 1170 records of 112
	// bytes, and then takes one fast call in 8: of 3800 calls some 470. Slow and failed ones are in
	// the other.
	const ring, total = 256 << 10, 5000
	tr := tracer(t, probes.Options{RingBytes: ring, NoLedger: true, Rows: ordinary(t, "cudaStreamSynchronize"), Long: 100 * time.Microsecond})
	pressure(t, tr, library, program, total)
	if peak := tr.Used() - 2*total/100*120; peak <= ring/2 || peak > ring/8*7 { // without the slow and failed ones
		t.Fatalf("the ring has %d bytes of %d: this tests nothing", peak, ring)
	}
	var saw sampled
	tr.Drain(1<<30, saw.take)
	if a := accounts(t, tr)["cudaStreamSynchronize"]; a.Calls != total || a.Done != total {
		t.Errorf("counted %d calls and %d returns, want %d", a.Calls, a.Done, total)
	}
	drops := dropped(t, tr)
	if lost := drops["ring-full"]; lost > 0 || saw.bad > 0 {
		t.Errorf("%d records lost to a full ring, %d malformed", lost, saw.bad)
	}
	if kept := saw.fast + saw.failed + saw.slow; drops["thinned"] == 0 || kept+drops["thinned"] != total {
		t.Errorf("%d records, %d left out, of %d calls", kept, drops["thinned"], total)
	}
	if saw.failed != total/100 || saw.slow < total/100 {
		t.Errorf("%d failed and %d slow calls have records, want all of the %d each", saw.failed, saw.slow, total/100)
	}
	// One of 8 fast calls, of 3730, stands for 8: the sum has a standard deviation of 8 * sqrt(3730
	// * 1/8 * 7/8) = 162. 1500 is 9 times that.
	if saw.weight < total-1500 || saw.weight > total+1500 {
		t.Errorf("the records stand for %d calls, want about %d", saw.weight, total)
	}
}

// A sleeping reader is woken once the ring is half full, and not before.
func TestPressureWakes(t *testing.T) {
	t.Parallel()
	testkit.NeedBPF(t)
	library, program := harm(t)
	const ring, wakes = 64 << 10, 5
	tr := tracer(t, probes.Options{RingBytes: ring, SamplingRate: 1, NoLedger: true, Rows: testkit.OpRows("cudaLaunchHostFunc")})
	child, _ := traced(t, tr, library, program, "rounds")
	woken := make(chan uint64, 1<<10) // bytes used in the ring
	go func() {
		defer close(woken)
		for tr.WaitPressure() == nil {
			woken <- tr.Used()
		}
	}()
	for range wakes {
		// The ring is not drained meanwhile. A thread checks its fill level for one record in 16.
		for used := uint64(0); used <= ring/2+4096; used = tr.Used() {
			child.Send("")
			child.Line("called")
		}
		var used uint64
		testkit.Eventually(t, "the reader to be woken", func() bool {
			select {
			case used = <-woken:
				return true
			default:
				return false
			}
		})
		if used < ring/2 {
			t.Errorf("woken when the ring had %d bytes of %d", used, ring)
		}
		tr.Drain(1<<30, func([]byte) {})
	}
	child.CloseStdin()
	if err := child.Wait(); err != nil {
		t.Fatal(err)
	}
	if err := tr.StopLives(); err != nil {
		t.Fatal(err)
	}
	for used := range woken {
		t.Errorf("woken once more, when the ring had %d bytes", used)
	}
	if err := tr.WaitPressure(); !errors.Is(err, os.ErrClosed) {
		t.Errorf("after the end: %v", err)
	}
}

// ordinary returns a row as if no answer depended on its calls.
func ordinary(t *testing.T, name string) []events.Row {
	rows := testkit.OpRows(name)
	rows[0].Class = events.ClassEvent
	if why := rows[0].Always(); why != "" {
		t.Fatalf("calls of %s are recorded always: %s", name, why)
	}
	return rows
}

// A fixed rate, and shedding, keep one record in N of fast calls, and all records of calls that
// answers depend on.
func TestFixedRate(t *testing.T) {
	t.Parallel()
	testkit.NeedBPF(t)
	library, program := harm(t)
	for name, tt := range map[string]struct {
		rate   int
		thin   uint32
		always bool
		weight uint32
		want   [2]uint64
	}{
		"all are asked for":              {1, 0, false, 1, [2]uint64{100, 100}},
		"one in 8":                       {8, 0, false, 8, [2]uint64{0, 60}},
		"left out":                       {0, 3, false, 8, [2]uint64{0, 60}},
		"one in 8, recorded always":      {8, 0, true, 1, [2]uint64{100, 100}},
		"left out, but recorded always":  {0, 6, true, 1, [2]uint64{100, 100}},
		"both, but recorded always":      {64, 6, true, 1, [2]uint64{100, 100}},
		"all are asked for, or left out": {1, 6, false, 1, [2]uint64{100, 100}},
	} {
		rows := ordinary(t, "cudaStreamSynchronize")
		if tt.always {
			rows = testkit.OpRows("cudaStreamSynchronize")
		}
		tr := tracer(t, probes.Options{SamplingRate: tt.rate, Rows: rows})
		if err := tr.Shed(probes.Shed{Thin: tt.thin}); err != nil {
			t.Fatal(err)
		}
		child, _ := traced(t, tr, library, program, "calls")
		child.Send("go")
		if err := child.Wait(); err != nil {
			t.Fatal(err)
		}
		saw := drain(t, tr)
		if n := uint64(len(saw)); n < tt.want[0] || n > tt.want[1] || n+dropped(t, tr)["thinned"] != 100 {
			t.Errorf("%s: %d records and %d left out, want %d to %d of 100", name, n, dropped(t, tr)["thinned"], tt.want[0], tt.want[1])
		}
		for _, c := range saw {
			if c.Weight != tt.weight {
				t.Errorf("%s: a record stands for %d calls, want %d", name, c.Weight, tt.weight)
			}
		}
	}
}

// Each call has a record or is counted as a drop. The kernel has the sums of both, and the thread's
// next record has the time of dropped calls in its gap.
func TestFullRing(t *testing.T) {
	t.Parallel()
	testkit.NeedBPF(t)
	library, program := harm(t)
	const ring, round, rounds = 64 << 10, 100, 20 // 80 KiB hold some 720 records
	for name, tt := range map[string]struct {
		rows   []events.Row
		reason string
	}{
		"of calls":        {ordinary(t, "cudaStreamSynchronize"), "ring-full"},
		"of what is kept": {testkit.OpRows("cudaStreamSynchronize"), "kept-ring-full"},
	} {
		t.Run(name, func(t *testing.T) {
			tr := tracer(t, probes.Options{RingBytes: ring, SamplingRate: 1, Rows: tt.rows})
			child, _ := traced(t, tr, library, program, "syncs")
			for range rounds {
				child.Send("")
				child.Line("called")
			}
			saw, drops := drain(t, tr), dropped(t, tr)
			n := len(saw)
			if n == 0 || drops[tt.reason] == 0 || uint64(n)+drops[tt.reason] != round*rounds {
				t.Fatalf("%d records of %d calls, left out %v", n, round*rounds, drops)
			}
			child.Send("")
			child.Line("called")
			child.CloseStdin()
			if err := child.Wait(); err != nil {
				t.Fatal(err)
			}
			if saw = append(saw, drain(t, tr)...); len(saw) != n+round {
				t.Fatalf("%d records once there is room, want %d", len(saw)-n, round)
			}
			var sums tick.Counts
			if err := tr.Counts(func(c *probes.CountsRow) {
				sums.Calls, sums.Done, sums.Total = sums.Calls+c.Calls, sums.Done+c.Done, sums.Total+c.TotalNs
			}); err != nil {
				t.Fatal(err)
			}
			if want := uint64(round * (rounds + 1)); sums.Calls != want || sums.Done != want {
				t.Errorf("counted %d calls and %d returns, want %d", sums.Calls, sums.Done, want)
			}
			lost := int64(sums.Total)
			for i := range saw {
				c := &saw[i]
				lost -= c.Duration
				if i > 0 && c.Gap != c.Start-saw[i-1].End() {
					t.Errorf("call %d: a gap of %d ns, %d after the last with a record", i, c.Gap, c.Start-saw[i-1].End())
				}
			}
			if next := &saw[n]; lost <= 0 || next.Gap < lost {
				t.Errorf("calls without a record took %d ns, the gap in which they are %d", lost, next.Gap)
			}
		})
	}
}

// A sampled stack stands for the calls of the sample, times the calls that its call's record stands
// for.
func TestSampleOfThinnedCalls(t *testing.T) {
	t.Parallel()
	testkit.NeedBPF(t)
	library, program := harm(t)
	tr := tracer(t, probes.Options{SamplingRate: 2, Rows: ordinary(t, "cudaStreamSynchronize"), Stacks: probes.StacksSlow})
	// Stacks then take at most 1/1,024 of a thread's time. A stack takes 300 ns or more, and most calls
	// with a record are 25 us apart, also on a busy machine: the first of them suffice to take fewer.
	if err := tr.Shed(probes.Shed{RareStacks: true}); err != nil {
		t.Fatal(err)
	}
	child, _ := traced(t, tr, library, program, "fast=20000")
	child.Send("go")
	if err := child.Wait(); err != nil {
		t.Fatal(err)
	}
	sampled := 0
	for _, c := range drain(t, tr) {
		if c.Weight != 2 {
			t.Fatalf("a record stands for %d calls, want 2", c.Weight)
		}
		if c.StackLevel > 0 {
			sampled++
			if want := uint64(2) << (2 * c.StackLevel); c.StackWeight() != want {
				t.Errorf("a stack stands for %d calls, want %d", c.StackWeight(), want)
			}
		}
	}
	if sampled == 0 {
		t.Error("no record of a call whose stack stands for others")
	}
}

// While stacks are rare, failed calls have one, but no more than a share of the thread's time allows.
func TestRareStacksAreBounded(t *testing.T) {
	t.Parallel()
	testkit.NeedBPF(t)
	library, program := harm(t)
	const total = 20_000
	tr := tracer(t, probes.Options{Rows: ordinary(t, "cudaStreamSynchronize"), Stacks: probes.StacksSlow})
	if err := tr.Shed(probes.Shed{RareStacks: true, NoPython: true}); err != nil {
		t.Fatal(err)
	}
	child, _ := traced(t, tr, library, program, fmt.Sprint("failing=", total))
	child.Send("go")
	if err := child.Wait(); err != nil {
		t.Fatal(err)
	}
	calls := drain(t, tr)
	if len(calls) != total {
		t.Fatalf("%d records, want %d", len(calls), total)
	}
	own := 0 // stacks that stand for one call
	for _, c := range calls {
		if c.Stack != 0 && c.StackLevel == 0 {
			own++
		}
	}
	// A stack takes 150 ns or more, and these take 1/4,096 of the time, with a second in advance. The first
	// samples stand for one call, too.
	took := time.Duration(calls[total-1].Start-calls[0].Start) + time.Second
	if most := 10 + int(took/(4096*150*time.Nanosecond)); own < 1 || own > most {
		t.Errorf("%d of %d failed calls have a stack of their own, want 1 to %d in %v", own, total, most, took)
	}
}
