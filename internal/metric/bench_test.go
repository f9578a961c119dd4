package metric

import (
	"testing"

	"ingero/internal/stats"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

// busy returns a batch and a tick of some processes.
func busy(processes int) (b tick.Batch, t tick.Tick) {
	t = tick.Tick{Time: epoch, Started: epoch, Seq: 1}
	for p := range processes {
		pid := uint32(p + 1)
		t.Processes = append(t.Processes, tick.Process{PID: pid, Comm: "train", Started: epoch})
		t.Threads = append(t.Threads, tick.Thread{PID: pid, TID: pid})
		t.Breakdowns = append(t.Breakdowns, tick.Breakdown{PID: pid, ByThread: []tick.ThreadTime{{TID: pid}}})
		for i := range 20 {
			op := events.Catalog[i].Op
			var d stats.Sketch
			for j := range int64(500) {
				d.Add(1000+j*997, 1)
				b.Calls = append(b.Calls, events.Call{PID: pid, TID: pid, Op: op, Duration: 1000, OnCPU: 600, Runnable: 400, Weight: 1, Gap: 100})
			}
			for j := range 20 {
				b.Waits = append(b.Waits, events.Wait{PID: pid, TID: pid, Op: op, State: events.WaitRunnable, Duration: 20, Taken: 20,
					Who: events.Thread{PID: 9, TID: 9, Name: events.NameOf("hog" + number(uint32(j)))}})
			}
			t.Ops = append(t.Ops, tick.Op{PID: pid, Op: op, Sum: tick.Counts{Calls: 500, Done: 500}, Last: tick.Counts{Calls: 500, Done: 500}, Dur: &d, DurLast: &d, Hist: &stats.Hist{}})
		}
	}
	return b, t
}

// A call allocates no memory.
func BenchmarkBatch(b *testing.B) {
	batch, t := busy(1)
	m := New(Options{})
	_ = m.Batch(&batch)
	_ = m.Tick(&t)
	b.ReportAllocs()
	for b.Loop() {
		_ = m.Batch(&batch)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(batch.Calls)), "ns/call")
}

func BenchmarkTick(b *testing.B) {
	batch, t := busy(8)
	m := New(Options{})
	b.ReportAllocs()
	for b.Loop() {
		_ = m.Batch(&batch)
		_ = m.Tick(&t)
	}
}
