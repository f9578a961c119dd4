package ledger

import (
	"cmp"
	"context"
	"io"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"ingero/internal/probes"
	"ingero/internal/proc"
	"ingero/internal/session"
	"ingero/internal/testkit"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

// tracing configures a session.
type tracing struct {
	raw     bool        // the probes' cost is left in the durations
	object  io.ReaderAt // BPF programs; nil: the agent's own
	witness *os.File    // counters of the kernel's events for the thread; nil: none
}

// record is a sink that keeps all records.
type record struct {
	mu    sync.Mutex
	calls []events.Call
	waits []events.Wait
	ticks []tick.Tick
}

func (r *record) Batch(b *tick.Batch) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls = append(r.calls, b.Calls...)
	r.waits = append(r.waits, b.Waits...)
	return nil
}

func (r *record) Tick(t *tick.Tick) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ticks = append(r.ticks, *t)
	return nil
}

func (r *record) Close() error { return nil }

// thread returns the newest account of a thread.
func (r *record) thread(tid uint32) (found tick.Thread, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, t := range r.ticks {
		for _, th := range t.Threads {
			if th.TID == tid {
				found, ok = th, true
			}
		}
	}
	return found, ok
}

// process returns the records of one process, calls in the order in which they began.
func (r *record) process(pid uint32) *record {
	own := &record{
		calls: slices.DeleteFunc(slices.Clone(r.calls), func(c events.Call) bool { return c.PID != pid }),
		waits: slices.DeleteFunc(slices.Clone(r.waits), func(w events.Wait) bool { return w.PID != pid }),
		ticks: r.ticks,
	}
	slices.SortStableFunc(own.calls, func(a, b events.Call) int { return cmp.Compare(a.Start, b.Start) })
	return own
}

// waitsOf returns the waits of a thread, in order.
func (r *record) waitsOf(tid uint32) []events.Wait {
	return slices.DeleteFunc(slices.Clone(r.waits), func(w events.Wait) bool { return w.TID != tid })
}

// rows returns the catalog's rows of the two functions that the program calls.
func rows() []events.Row { return testkit.OpRows("cudaStreamSynchronize", "cuStreamSynchronize") }

// watch traces processes until they have ended. The returned function waits for that.
func watch(t testing.TB, how tracing, pids ...uint32) (r *record, wait func()) {
	t.Helper()
	live, err := session.OpenLive(t.Context(), session.LiveOptions{
		Select: proc.Selector{PIDs: pids}, Raw: how.raw, Probes: probes.Options{Rows: rows(), Object: how.object}})
	if err != nil {
		t.Fatal(err)
	}
	r = &record{}
	ended := make(chan struct{})
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	go func() {
		defer close(ended)
		err = session.Run(ctx, session.Config{Source: live, Sinks: []tick.Sink{r}, Interval: 100 * time.Millisecond})
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
	})
	return r, func() {
		t.Helper()
		testkit.Receive(t, "the session's end", ended)
		if err != nil {
			t.Fatal(err)
		}
	}
}

// trace runs workloads one after the other under one session, since a session is slow to start. The
// test fails unless each call has a record.
func trace(t testing.TB, how tracing, workloads ...workload) (runs []*run) {
	t.Helper()
	dir := build(t)
	var pids []uint32
	for i := range workloads {
		r := workloads[i].start(t, dir, how)
		runs, pids = append(runs, r), append(pids, r.pid)
	}
	all, wait := watch(t, how, pids...)
	for _, r := range runs {
		r.play(t)
	}
	wait()
	for _, r := range runs {
		r.record = all.process(r.pid)
		want := r.count
		if r.scenario == "nested" {
			want *= 2
		}
		if len(r.calls) != want || len(r.truths) != want {
			t.Fatalf("%s: %d records of %d calls, want %d", r.name, len(r.calls), len(r.truths), want)
		}
	}
	return runs
}
