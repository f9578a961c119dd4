package dashboard

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"ingero/internal/query"
	"ingero/internal/stats"
	"ingero/internal/store"
	"ingero/internal/store/segment"
	"ingero/internal/tick"
	"ingero/internal/wire"
	"ingero/pkg/events"
)

// A window without a start is as long as the default window, and one without either is not asked
// for.
func TestWindow(t *testing.T) {
	now := time.Date(2026, 11, 20, 15, 0, 0, 0, time.UTC)
	at := func(d time.Duration) time.Time { return now.Add(d) }
	for name, tt := range map[string]struct {
		window, ask string
		from, to    time.Time
		status      int // 0: no error
	}{
		"none":            {"5m", "", time.Time{}, time.Time{}, 0},
		"since":           {"5m", "?since=1m", at(-time.Minute), now, 0},
		"from":            {"5m", "?from=2026-11-20T14:00:00Z", at(-time.Hour), now, 0},
		"to":              {"5m", "?to=2026-11-20T14:00:00Z", at(-time.Hour - 5*time.Minute), at(-time.Hour), 0},
		"to, no default":  {"", "?to=2026-11-20T14:00:00Z", time.Time{}, time.Time{}, http.StatusBadRequest},
		"both":            {"", "?from=2026-11-20T13:00:00Z&to=2026-11-20T14:00:00Z", at(-2 * time.Hour), at(-time.Hour), 0},
		"from after to":   {"5m", "?from=2026-11-20T14:00:00Z&to=2026-11-20T13:00:00Z", time.Time{}, time.Time{}, http.StatusBadRequest},
		"seconds":         {"", "?from=1795179600&to=1795183200", at(-2 * time.Hour), at(-time.Hour), 0},
		"milliseconds":    {"", "?from=1795179600000&to=1795183200000", at(-2 * time.Hour), at(-time.Hour), 0},
		"microseconds":    {"", "?from=1795179600000000&to=1795183200000000", at(-2 * time.Hour), at(-time.Hour), 0},
		"nanoseconds":     {"", "?from=1795179600000000000&to=1795183200000000000", at(-2 * time.Hour), at(-time.Hour), 0},
		"seconds of 2300": {"5m", "?to=10413792000", time.Time{}, time.Time{}, http.StatusBadRequest},
		"ms of 2300":      {"5m", "?to=10413792000000", time.Time{}, time.Time{}, http.StatusBadRequest},
		"us of 2300":      {"5m", "?to=10413792000000000", time.Time{}, time.Time{}, http.StatusBadRequest},
		"the last ns":     {"5m", "?to=9223372036854775807", time.Time{}, time.Time{}, http.StatusBadRequest},
		"too many digits": {"5m", "?to=17951796000000000000", time.Time{}, time.Time{}, http.StatusBadRequest},
		"the year 2300":   {"5m", "?to=2300-01-01T00:00:00Z", time.Time{}, time.Time{}, http.StatusBadRequest},
		"before 1970":     {"5m", "?to=1969-12-31T00:00:00Z", time.Time{}, time.Time{}, http.StatusBadRequest},
		"negative":        {"5m", "?to=-1795179600", time.Time{}, time.Time{}, http.StatusBadRequest},
		"from in a while": {"5m", "?from=2026-11-20T16:00:00Z", time.Time{}, time.Time{}, http.StatusBadRequest},
	} {
		t.Run(name, func(t *testing.T) {
			a := &request{server: newServer(Options{Now: func() time.Time { return now }}), row: &Path{Window: tt.window}, r: httptest.NewRequest(http.MethodGet, "/"+tt.ask, nil)}
			q, err := a.question()
			var no *refusal
			if tt.status > 0 {
				if !errors.As(err, &no) || no.status != tt.status {
					t.Errorf("%v, want status %d", err, tt.status)
				}
				return
			}
			if err != nil || !q.From.Equal(tt.from) || !q.To.Equal(tt.to) {
				t.Errorf("from %v to %v (%v), want %v to %v", q.From, q.To, err, tt.from, tt.to)
			}
		})
	}
}

// Machines that take turns all stay when snapshots are thinned, in the order of their times.
func TestThinnedSnapshots(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.db")
	now := time.Date(2026, 11, 20, 14, 0, 0, 0, time.UTC)
	const each = maxSnapshots/2 + 1
	for i, node := range []string{"gpu-7", "gpu-8"} {
		at := now.Add(time.Duration(i) * time.Second / 2)
		db, err := store.Open(store.Options{Path: path, Now: func() time.Time { return at }, Session: segment.Session{ID: node, Node: node, Started: at}})
		if err != nil {
			t.Fatal(err)
		}
		for n := range uint64(each) {
			at = at.Add(time.Second)
			if err := db.Tick(&tick.Tick{Time: at, Started: now, Seq: n + 1, Final: n == each-1}); err != nil {
				t.Fatal(err)
			}
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
	h, end := Handler(Options{Path: func() string { return path }, Now: func() time.Time { return now.Add(2 * time.Hour) }, Log: slog.New(slog.DiscardHandler)})
	defer end()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/api/v1/snapshots?since=2h", nil))
	var got wire.Snapshots
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || w.Code != http.StatusOK {
		t.Fatalf("%d %.300s: %v", w.Code, w.Body, err)
	}
	of := map[string]int{}
	for i, s := range got.Snapshots {
		of[s.Node]++
		if i > 0 && s.Time.Before(got.Snapshots[i-1].Time) {
			t.Fatalf("snapshot %d is earlier than the one before", i)
		}
	}
	if got.Every != 2 || of["gpu-7"] != (each+1)/2 || of["gpu-8"] != (each+1)/2 {
		t.Errorf("each of %d: %v, want half of %d for each machine", got.Every, of, each)
	}
}

// An operation without timed calls in any bucket has empty lists, not null.
func TestEmptyHeat(t *testing.T) {
	o := query.OpStat{Dur: &stats.Sketch{}}
	h := heatOf(&o)
	fillHeat(&h, o.Op, &scale{}, nil)
	text, err := json.Marshal(h)
	if err != nil || !strings.Contains(string(text), `"low_ns":[],"cells":[]`) {
		t.Errorf("%s: %v", text, err)
	}
}

// A window up to the current time ends with the recording that is being made, after the wall clock was set.
func TestWindowAfterAClockStep(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.db")
	at := time.Date(2026, 11, 20, 14, 0, 0, 0, time.UTC)
	db, err := store.Open(store.Options{Path: path, Now: func() time.Time { return at }, Session: segment.Session{ID: "s", Started: at}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	started := at
	for n := range uint64(10) {
		at = at.Add(time.Second)
		if err := db.Tick(&tick.Tick{Time: at, Started: started, Seq: n + 1}); err != nil {
			t.Fatal(err)
		}
	}
	for _, wall := range []time.Duration{-time.Hour, 0, time.Hour} {
		h, end := Handler(Options{Path: func() string { return path }, Now: func() time.Time { return at.Add(wall) }, Log: slog.New(slog.DiscardHandler)})
		ask := func(path string, to any) {
			t.Helper()
			w := httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
			if err := json.Unmarshal(w.Body.Bytes(), to); err != nil || w.Code != http.StatusOK {
				t.Fatalf("%s: %d %.300s: %v", path, w.Code, w.Body, err)
			}
		}
		var got wire.Snapshots
		ask("/api/v1/snapshots?since=5s", &got)
		if n := len(got.Snapshots); n < 5 || n > 6 || got.To.Sub(at).Abs() > time.Second {
			t.Errorf("wall clock at %v: %d snapshots up to %v, want 5 up to %v", wall, n, got.To, at)
		}
		var fleet wire.Machines
		if ask("/api/v1/fleet?since=5s", &fleet); !fleet.To.Equal(at.Add(wall)) || fleet.To.Sub(fleet.From) != 5*time.Second {
			t.Errorf("wall clock at %v: other machines are asked about %v to %v", wall, fleet.From, fleet.To)
		}
		end()
	}
}

// Rows beyond the limit are counted.
func TestStacksLimit(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.db")
	at := time.Date(2026, 11, 20, 14, 0, 0, 0, time.UTC)
	now := func() time.Time { return at.Add(time.Second) }
	db, err := store.Open(store.Options{Path: path, Now: now, Session: segment.Session{ID: "s", Started: at}})
	if err != nil {
		t.Fatal(err)
	}
	b := tick.Batch{}
	for i := range uint32(2) {
		b.Calls = append(b.Calls, events.Call{Start: at.UnixNano() + int64(i), Duration: 100, PID: 7, TID: 7, Weight: 1, Op: events.OpsNamed("cudaMalloc")[0], Stack: i + 1})
		b.Stacks = append(b.Stacks, events.Stack{ID: i + 1, PID: 7, Frames: []events.Frame{{Kind: events.FramePython, Func: "f", File: "a.py", Line: int32(i) + 1}}})
	}
	if err := errors.Join(db.Batch(&b), db.Tick(&tick.Tick{Time: now(), Started: at, Seq: 1}), db.Close()); err != nil {
		t.Fatal(err)
	}
	h, end := Handler(Options{Path: func() string { return path }, Now: now, Log: slog.New(slog.DiscardHandler)})
	defer end()
	for limit, more := range map[int]int{1: 1, 2: 0} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, fmt.Sprintf("/api/v1/stacks?limit=%d", limit), nil))
		var got wire.Stacks
		if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || len(got.Stacks) != limit || got.More != more {
			t.Errorf("limit %d: %s, %v; want more: %d", limit, w.Body, err, more)
		}
	}
}
