package clickhouse

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"ingero/internal/query"
	"ingero/internal/store"
)

// Damage of a log is noted once by a copy of all tables, and not kept by the passes of a trace.
func TestDamageIsNotedOnce(t *testing.T) {
	path := longRecording(t, 70) // the rollups of more than one hour
	segments, err := filepath.Glob(filepath.Join(store.LogDir(path), "*"))
	if err != nil || len(segments) < 70 {
		t.Fatal(segments, err)
	}
	var last string
	var b []byte
	for _, name := range slices.Backward(segments) {
		if b, err = os.ReadFile(name); err != nil || len(b) > 1<<10 { // smaller ones have no calls
			last = name
			break
		}
	}
	if err := errors.Join(err, os.WriteFile(last, b[:len(b)/2], 0o600)); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer server.Close()
	c, err := Open(server.URL, Options{Backoff: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	r, err := query.Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	res, err := Copy(t.Context(), c, r, query.Filter{Session: "s"}, nil)
	if err != nil || len(res.Coverage.Damage) == 0 {
		t.Fatalf("%+v, %v", res, err)
	}
	notes := slices.Clone(res.Coverage.Damage)
	slices.Sort(notes)
	if once := slices.Compact(slices.Clone(notes)); len(once) != len(notes) {
		t.Errorf("damage is noted more than once: %q", notes)
	}
	s, err := r.Session(t.Context(), "s")
	if err != nil {
		t.Fatal(err)
	}
	x := newCopier(c, r, query.Filter{}, &s, &Result{}, nil)
	x.live = true
	for range 3 {
		if err := x.pass(t.Context(), true); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(x.res.Coverage.Damage); n > 0 {
		t.Errorf("the passes of a trace keep %d notes", n)
	}
}
