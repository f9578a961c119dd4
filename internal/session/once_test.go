package session_test

import (
	"context"
	"encoding/json"
	"os/exec"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"ingero/internal/govern"
	"ingero/internal/probes"
	"ingero/internal/session"
	"ingero/internal/testkit"
	"ingero/internal/tick"
	"ingero/pkg/events"
	"ingero/sim"
)

// switching is a source that takes or takes back launches-once every few ticks.
type switching struct {
	*session.Live
	session.Sheddable
	launch events.Op
	ticks  int
	out    atomic.Int32 // ticks at which the runtime's launches had no probes
	in     atomic.Int32 // ticks after the first of these at which they had probes
}

// Capabilities implements session.Source.
func (s *switching) Capabilities() session.Capabilities {
	can := s.Live.Capabilities()
	can.Shedder = s
	return can
}

func (s *switching) Spent() (session.Spent, error) {
	const every = 8
	if timed, _, _ := s.ProbeCost(s.launch); timed == 0 {
		s.out.Add(1)
	} else if s.out.Load() > 0 {
		s.in.Add(1)
	}
	step := slices.IndexFunc(govern.Steps[:], func(x govern.Step) bool { return x.Name == "launches-once" })
	if s.ticks++; s.ticks%every == 0 && !s.Lacks(step) {
		if err := s.Shed(time.Unix(0, 0), govern.Change{Step: step, Taken: s.ticks/every%2 == 1}, nil); err != nil {
			return session.Spent{}, err
		}
	}
	return s.Sheddable.Spent()
}

// Counts equal the program's while the probes of the runtime's launches come and go. It does not run beside
// other tests: a process that they start holds the links until its exec, which closes those of returns
// first, so that calls would be opened and not closed.
func TestLaunchesOnce(t *testing.T) {
	testkit.NeedBPF(t)
	stack, err := sim.Extract(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	rows := testkit.OpRows("cudaLaunchKernel", "cuLaunchKernel")
	for _, op := range []string{"cudaLaunchKernel", "cuLaunchKernel"} {
		t.Run(op, func(t *testing.T) {
			cmd := exec.Command(stack.Program("calls"), op, "12000", "--rate", "3000", "--threads", "3", "--zero", "--start-on-stdin", "--lib", "libcudart.so.12")
			child := testkit.Start(t, cmd)
			testkit.Eventually(t, "the program to be ready", func() bool { return strings.Contains(child.Stdout(), "ready") })
			live, err := session.OpenLive(t.Context(), session.LiveOptions{Select: pids(child), MaxOverhead: 1000,
				Probes: probes.Options{Rows: rows, Mode: probes.ModeMulti}})
			if err != nil {
				t.Fatal(err)
			}
			s := &switching{Live: live, Sheddable: live.Capabilities().Shedder, launch: rows[0].Op}
			r := &running{collector: &collector{}, live: live, done: make(chan error, 1)}
			ctx := context.WithoutCancel(t.Context())
			go func() {
				r.done <- session.Run(ctx, session.Config{Source: s, Sinks: []tick.Sink{r.collector}, Interval: 50 * time.Millisecond})
			}()
			child.Send("go")
			if err := child.Wait(); err != nil {
				t.Fatal(err)
			}
			r.end(t)
			var said struct{ Calls, Errors uint64 }
			out := child.Stdout()
			if err := json.Unmarshal([]byte(out[strings.LastIndex(out, "{\"program\""):]), &said); err != nil || said.Errors > 0 {
				t.Fatalf("%s: %v", out, err)
			}
			got := map[string]tick.Counts{}
			for i := range r.last.Ops {
				got[r.last.Ops[i].Op.String()] = r.last.Ops[i].Sum
			}
			want := map[string]uint64{"cuLaunchKernel": said.Calls}
			if op == "cudaLaunchKernel" {
				want[op] = said.Calls
				if s.out.Load() == 0 || s.in.Load() == 0 {
					t.Errorf("without probes at %d ticks, and later with some at %d: this tests nothing", s.out.Load(), s.in.Load())
				}
			}
			for name, n := range want {
				if c := got[name]; c.Calls != n || c.Done+c.Unmeasured+c.Abandoned != n {
					t.Errorf("%s: %+v, want %d calls", name, c, n)
				}
			}
			if n := got["cuLaunchKernel"].Nested; n != want["cudaLaunchKernel"] {
				t.Errorf("%d launches of the driver inside the runtime's, want %d", n, want["cudaLaunchKernel"])
			}
		})
	}
}
