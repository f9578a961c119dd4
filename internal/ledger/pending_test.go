package ledger

import (
	"testing"

	"ingero/internal/tick"
	"ingero/pkg/events"
)

// Each wait is in the step in which it was, however many come in one batch or before one call.
func TestManyWaits(t *testing.T) {
	wait, _ := events.OpByName("cudaDeviceSynchronize")
	const every, lasts = 100_000, 30_000 // ns
	for name, x := range map[string]struct{ threads, steps, waits, batch int }{
		"a batch for each step":            {threads: 1, steps: 4, waits: 3000, batch: 3000},
		"all steps in one batch":           {threads: 1, steps: 4, waits: 3000, batch: 1 << 20},
		"a step in many batches":           {threads: 1, steps: 2, waits: 9000, batch: 1000},
		"a step in one batch":              {threads: 1, steps: 2, waits: 9000, batch: 1 << 20},
		"threads that exceed the sum":      {threads: 20, steps: 2, waits: 4000, batch: 8192},
		"threads with all in their batch":  {threads: 20, steps: 2, waits: 4000, batch: 1 << 20},
		"few waits after those of threads": {threads: 70, steps: 2, waits: 1000, batch: 500},
	} {
		t.Run(name, func(t *testing.T) {
			l := New(0)
			var b tick.Batch
			var steps []Step
			send := func() {
				steps = append(steps, copySteps(l.Batch(b.Waits, b.Calls))...)
				b = tick.Batch{}
			}
			for step := range x.steps + 1 {
				at := base + int64(step*x.waits)*every
				for i := range x.threads {
					c := events.Call{Start: at - 1000, Duration: 1000, PID: 7, TID: uint32(100 + i), Op: wait, Weight: 1}
					if step > 0 {
						c.Gap, c.GapBlocked = int64(x.waits)*every-1000, int64(x.waits)*lasts
						c.GapOnCPU = c.Gap - c.GapBlocked
					}
					b.Calls = append(b.Calls, c)
				}
				if step == x.steps {
					break
				}
				for i := range x.threads {
					for n := range x.waits {
						if len(b.Waits)+len(b.Calls) >= x.batch {
							send()
						}
						w := events.Wait{Start: at + int64(n)*every, Duration: lasts, PID: 7, TID: uint32(100 + i), State: events.WaitBlocked, Reason: events.ReasonDisk}
						b.Waits = append(b.Waits, w)
					}
				}
			}
			send()
			if len(steps) != x.threads*x.steps {
				t.Errorf("%d steps, want %d", len(steps), x.threads*x.steps)
			}
			for i := range steps {
				s, count := &steps[i], uint32(0)
				for j := range s.Waits {
					count += s.Waits[j].Count
				}
				if disk := s.Parts.Blocked[events.ReasonDisk]; count != uint32(x.waits) || disk != int64(x.waits)*lasts {
					t.Errorf("step %d of thread %d: %d waits of %d ns, want %d of %d", i/x.threads, s.TID, count, disk, x.waits, int64(x.waits)*lasts)
				}
			}
		})
	}
}
