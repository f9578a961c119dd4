//go:build measure

package session_test

import (
	"os/exec"
	"slices"
	"testing"
	"time"

	"ingero/internal/probes"
	"ingero/internal/session"
	"ingero/internal/testkit"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

// mix starts the program that makes three kinds of calls at full speed.
func mix(t *testing.T) (*testkit.Child, []events.Row) {
	t.Helper()
	testkit.NeedBPF(t)
	dir := t.TempDir()
	gcc(t, "-o", dir+"/mix", "testdata/mix.c", "-ldl")
	gcc(t, "-shared", "-fPIC", "-o", dir+"/libcudart.so.12", "testdata/mixlib.c")
	child := testkit.Start(t, exec.Command(dir+"/mix", dir+"/libcudart.so.12"))
	child.Line("ready")
	return child, testkit.OpRows("cudaLaunchKernel", "cudaMemcpyAsync", "cudaStreamSynchronize")
}

// fastClock is a clock at twenty times the speed.
type fastClock struct{ start time.Time }

func (h fastClock) Now() time.Time                         { return h.start.Add(20 * time.Since(h.start)) }
func (h fastClock) After(d time.Duration) <-chan time.Time { return time.After(d / 20) }

// sheds is a sink that keeps the steps that were taken, in order.
type sheds struct {
	collector
	seen  []string // each once
	peak  float64
	share float64
	most  int
}

func (s *sheds) Tick(t *tick.Tick) error {
	s.mu.Lock()
	for _, step := range t.Overhead.Shed {
		if !slices.Contains(s.seen, step) {
			s.seen = append(s.seen, step)
		}
	}
	s.most = max(s.most, len(t.Overhead.Shed))
	s.share, s.peak = t.Overhead.Share, max(s.peak, t.Overhead.Share)
	s.mu.Unlock()
	return s.collector.Tick(t)
}

func (s *sheds) peakShare() float64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.peak
}

func (s *sheds) state() (seen, now []string, share float64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.last != nil {
		now = s.last.Overhead.Shed
	}
	return slices.Clone(s.seen), now, s.share
}

// A loop of empty calls exceeds the budget until the probes themselves are shed; then it runs at
// its untraced speed. Once it stops, all probes return, and each call is counted again.
func TestOverheadIsHeld(t *testing.T) {
	for _, mode := range modes {
		t.Run(string(mode), func(t *testing.T) {
			child, rows := mix(t)
			const budget = 0.012 // at a clock that is 20 times too fast: a quarter of the time
			s := &sheds{}
			r := beginWith(t, session.LiveOptions{Select: pids(child), MaxOverhead: budget,
				Probes: probes.Options{Mode: mode, Rows: rows, Stacks: probes.StacksSlow}},
				session.Config{Clock: fastClock{time.Now()}, Sinks: []tick.Sink{s}})
			child.Send("go")
			child.Line("going")
			testkit.Eventually(t, "the last step, and a cost within the budget", func() bool {
				_, now, share := s.state()
				return slices.Contains(now, "hot-off") && share < budget
			})
			seen, _, _ := s.state()
			testkit.Measured(t, "peak", 100*s.peakShare(), "%", testkit.Lower)
			for _, step := range []string{"records-thin", "launches-counted", "calls-counted"} {
				if !slices.Contains(seen, step) {
					t.Errorf("steps taken: %v, want %s among them", seen, step)
				}
			}
			child.Send("stop")
			child.Line("rounds")
			testkit.Eventually(t, "all that is put back", func() bool { _, now, _ := s.state(); return len(now) == 0 })
			before := r.calls()
			child.Send("go")
			child.Line("going")
			child.Send("stop")
			child.Line("rounds")
			child.CloseStdin()
			if err := child.Wait(); err != nil {
				t.Fatal(err)
			}
			r.end(t)
			if now := r.sum().Calls; now <= before {
				t.Errorf("%d calls before, %d after", before, now)
			}
			for _, kind := range []string{"precision-lost", "precision-back"} {
				if !r.reported(kind) {
					t.Errorf("no report of kind %s: %+v", kind, r.last.Reports)
				}
			}
		})
	}
}

func (c *collector) calls() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.sum().Calls
}
