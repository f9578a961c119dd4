//go:build measure

package session_test

import (
	"fmt"
	"slices"
	"syscall"
	"testing"
	"time"

	"ingero/internal/session"
	"ingero/internal/testkit"
	"ingero/pkg/events"
)

// spread reports the median, 90th percentile and maximum of times.
func spread(t *testing.T, name string, d []time.Duration) {
	t.Helper()
	slices.Sort(d)
	for _, q := range []struct {
		name string
		of   float64
	}{{"median", 0.5}, {"p90", 0.9}, {"worst", 1}} {
		at := d[int(q.of*float64(len(d)-1))]
		testkit.Measured(t, name+"-"+q.name, at.Seconds()*1e3, "ms", testkit.Lower)
	}
}

// Measures the time to start a session up to its first record, and to stop it, over 100 sessions
// that leave nothing behind.
func TestHundredCycles(t *testing.T) {
	dir := build(t)
	child := worker(t, dir, "stay", "1000")
	child.Line("ready")
	child.Send("go")
	cycle := func() (start, stop time.Duration) {
		from := time.Now()
		r := begin(t, session.LiveOptions{Select: pids(child)})
		testkit.Eventually(t, "a first record", func() bool { return r.saw() > 0 })
		start = time.Since(from)
		from = time.Now()
		r.cancel()
		r.end(t)
		return start, time.Since(from)
	}
	cycle() // one-time allocations are no leak
	testkit.LeakCheck(t)
	var starts, stops []time.Duration
	for range 100 {
		a, b := cycle()
		starts, stops = append(starts, a), append(stops, b)
	}
	spread(t, "start", starts)
	spread(t, "stop", stops)
	child.Signal(syscall.SIGKILL)
}

// Measures the time from the mapping of a library to its probes, with the whole catalog.
func TestLateLibrariesAreQuick(t *testing.T) {
	const n = 50
	copies := make([]string, n)
	for i := range copies {
		copies[i] = fmt.Sprintf("%d/libcudart.so.12", i)
	}
	last, notices := loadEach(t, "100", copies)
	var late []time.Duration
	for _, notice := range notices {
		if notice.AttachDelay > 10*time.Second {
			t.Errorf("%s: attached %v after its mapping", notice.Library, notice.AttachDelay)
		}
		late = append(late, notice.AttachDelay)
	}
	spread(t, "attach", late)
	if p := last.Processes[0]; p.Attached.Sub(p.Mapped) > 10*time.Second {
		t.Errorf("mapped at %v, attached at %v", p.Mapped, p.Attached)
	}
}

// Steps have the length that the program measures, and little unaccounted time, in every mode.
func TestStepsAreAsLongAsTheProgramsRanges(t *testing.T) {
	for _, mode := range modes {
		t.Run(string(mode), func(t *testing.T) {
			said, kept, r := trainNVTX(t, mode, "--steps", "300", "--kernel-us", "100", "--nvtx", "train step")
			if len(r.last.Breakdowns) != 1 || r.last.Breakdowns[0].Loop == nil {
				t.Fatalf("no loop in %+v", r.last.Breakdowns)
			}
			l := r.last.Breakdowns[0].Loop
			off := l.P50 - said.RangeP50
			testkit.Measured(t, "step-off", 100*float64(off.Abs())/float64(said.RangeP50), "%", testkit.Lower)
			if off.Abs() > said.RangeP50/20 {
				t.Errorf("%v each, by the program's clock %v", l.P50, said.RangeP50)
			}
			for i := range l.Slowest {
				if s := &l.Slowest[i]; s.Times.Unknown > s.Length()/20 || s.Times.GPUWait == 0 {
					t.Errorf("a step of %v: %+v", s.Length(), s.Times)
				}
			}
			// The time of the return probe is in neither.
			last := map[uint32]*events.Call{}
			for i := range kept.calls {
				c := &kept.calls[i]
				if was := last[c.TID]; was != nil && c.Gap < c.Start-was.End()-200_000 {
					t.Fatalf("a gap of %d ns where %d passed between calls", c.Gap, c.Start-was.End())
				}
				last[c.TID] = c
			}
		})
	}
}

// Like TestMemoryAtEachStep, with five times as many allocations and frees.
func TestMemoryAtEachStepOfALongRun(t *testing.T) { memoryAtEachStep(t, 100_000) }
