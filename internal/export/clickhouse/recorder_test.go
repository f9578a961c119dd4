package clickhouse_test

import (
	"cmp"
	"path/filepath"
	"testing"
	"time"

	"ingero/internal/export/clickhouse"
	"ingero/internal/query"
	"ingero/internal/stats"
	"ingero/internal/store"
	"ingero/internal/store/segment"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

var began = time.Date(2026, 11, 21, 23, 59, 50, 0, time.UTC) // calls are on two days

// recorder writes a session as a trace does.
type recorder struct {
	t    testing.TB
	db   *store.DB
	path string
	now  time.Time
	n    int
	all  *stats.Sketch
	comm string        // name of process 7; "": "tra\tin"
	gap  time.Duration // between the starts of two calls; 0: 100 us
	// facts adds what the next tick has beside calls.
	facts func(*tick.Batch, *tick.Tick)
}

func newRecorder(t testing.TB, session string) *recorder {
	t.Helper()
	return newRecorderOn(t, "gpu-7", session)
}

func newRecorderOn(t testing.TB, node, session string) *recorder {
	t.Helper()
	r := &recorder{t: t, path: filepath.Join(t.TempDir(), "x.db"), now: began, all: &stats.Sketch{}}
	var err error
	r.db, err = store.Open(store.Options{Path: r.path, Now: func() time.Time { return r.now }, Session: segment.Session{ID: session, Node: node, Started: began}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.db.Close() })
	return r
}

// record adds n calls.
func (r *recorder) record(n int) {
	r.t.Helper()
	b, gap := &tick.Batch{Calls: make([]events.Call, n)}, cmp.Or(r.gap, 100*time.Microsecond)
	for i := range b.Calls {
		at := r.n + i
		c := &b.Calls[i]
		*c = events.Call{Start: began.UnixNano() + int64(at)*int64(gap), Duration: 1000 + int64(at%997)*100, OnCPU: 1000, PID: 7 + uint32(at%2), TID: 7, Weight: 1,
			Op: events.Catalog[at%5].Op, Args: [4]uint64{uint64(at), 1 << 63, 0, 5}}
		c.Blocked = c.Duration - c.OnCPU
		switch at % 50 {
		case 0:
			c.Flags, c.Result = events.CallFailed, -2
		case 1:
			c.Flags = events.CallUnmeasured
		}
		if c.Flags&events.CallUnmeasured == 0 {
			r.all.Add(c.Duration, 1)
		}
	}
	r.n += n
	r.now = began.Add(time.Duration(r.n) * gap)
	if err := r.db.Batch(b); err != nil {
		r.t.Fatal(err)
	}
}

// tick ends a second.
func (r *recorder) tick(final bool) {
	r.t.Helper()
	x := &tick.Tick{Started: began, Time: r.now, Seq: uint64(r.n), Final: final, Processes: []tick.Process{{PID: 7, Comm: cmp.Or(r.comm, "tra\tin")}, {PID: 8, Comm: "eval'uate"}},
		Chains: []tick.Chain{{ID: "c-1", Rule: "cpu-taken", Severity: tick.High, PID: 7, From: began, To: r.now, Lost: time.Duration(r.n), Confidence: 0.5, Baseline: "it's"}}}
	if r.facts != nil {
		var b tick.Batch
		r.facts(&b, x)
		if err := r.db.Batch(&b); err != nil {
			r.t.Fatal(err)
		}
	}
	if err := r.db.Tick(x); err != nil {
		r.t.Fatal(err)
	}
}

// finish ends the recording.
func (r *recorder) finish() {
	r.t.Helper()
	r.tick(true)
	if err := r.db.Close(); err != nil {
		r.t.Fatal(err)
	}
}

// whole ends the recording, and opens it.
func (r *recorder) whole() *query.Reader {
	r.t.Helper()
	r.finish()
	q, err := query.Open(r.t.Context(), r.path)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { _ = q.Close() })
	return q
}

func open(t testing.TB, addresses string) *clickhouse.Cluster {
	t.Helper()
	c, err := clickhouse.Open(addresses, clickhouse.Options{Backoff: 20 * time.Millisecond, Most: 500 * time.Millisecond, Timeout: 20 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}
