package dashboard

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"
	"time"

	"ingero/internal/clock"
	"ingero/internal/store"
	"ingero/internal/store/segment"
	"ingero/internal/testkit"
	"ingero/internal/tick"
	"ingero/internal/wire"
	"ingero/pkg/events"
)

// Times of ranks are by the wall clock, also after it was set during the recording.
func TestCollectivesAfterClockStep(t *testing.T) {
	offset, err := clock.Offset()
	if err != nil {
		t.Fatal(err)
	}
	const ahead = 30 * time.Second
	at := time.Date(2026, 11, 20, 14, 0, 0, 0, time.UTC) // by the recording's clock
	path := filepath.Join(t.TempDir(), "x.db")
	db, err := store.Open(store.Options{Path: path, Now: func() time.Time { return at },
		Session: segment.Session{ID: "one", Started: at.Add(-time.Second), MonoOffset: offset - int64(ahead)}})
	if err != nil {
		t.Fatal(err)
	}
	c := events.Call{Start: at.Add(-500 * time.Millisecond).UnixNano(), Duration: 1000, OnCPU: 1000, PID: 1, TID: 1, Weight: 1, Op: testkit.Op("ncclAllReduce")}
	for i := range c.Args { // the communicator is one of them
		c.Args[i] = 0xc0
	}
	comm := tick.Comm{Number: 1, Handle: 0xc0, ID: 0xabc, Ranks: 2, Began: at.Add(-time.Second).UnixNano(), Seq: 1, Last: tick.CommOp{Op: c.Op, Time: c.Start}}
	last := &tick.Tick{Time: at, Started: at.Add(-time.Second), Seq: 1, States: []tick.State{{PID: 1, Comms: tick.List[tick.Comm]{First: []tick.Comm{comm}}}}}
	for _, err := range []error{db.Batch(&tick.Batch{Calls: []events.Call{c}}), db.Tick(last)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	h, end := Handler(Options{Path: func() string { return path }, Now: func() time.Time { return at.Add(ahead) }, Log: slog.New(slog.DiscardHandler)})
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/api/v1/collectives", nil))
	end()
	if err := db.Close(); err != nil {
		t.Error(err)
	}
	var got wire.Collectives
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || len(got.Ranks) != 1 || len(got.Ranks[0].Entries) != 1 {
		t.Fatalf("%d %.300s: %v", w.Code, w.Body, err)
	}
	r := &got.Ranks[0]
	seen, entered := time.Unix(0, r.SeenNS).Sub(at), time.Unix(0, r.Entries[0].TimeNS).Sub(at)
	if seen.Round(time.Millisecond) != ahead || entered.Round(time.Millisecond) != ahead-500*time.Millisecond {
		t.Errorf("seen after %v, entered after %v, want %v and %v", seen, entered, ahead, ahead-500*time.Millisecond)
	}
}
