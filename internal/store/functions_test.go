package store

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"ingero/internal/store/log"
	"ingero/internal/store/segment"
	"ingero/internal/testkit"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

// A segment can be read alone: it begins with the handles' names.
func TestNextSegmentHasTheFunctions(t *testing.T) {
	now := time.Unix(1000, 0)
	db, err := Open(Options{Path: t.TempDir() + "/x.db", Session: segment.Session{ID: "s", Node: "n"}, Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	first := []events.Function{{PID: 1, Handle: 1, Name: "a"}, {PID: 1, Handle: 2, Why: events.NoNameEnded}}
	if err := db.Batch(&tick.Batch{Functions: first}); err != nil {
		t.Fatal(err)
	}
	db.mu.Lock()
	err = errors.Join(db.flush(), db.rotate())
	db.mu.Unlock()
	if err != nil {
		t.Fatal(err)
	}
	second := []events.Function{{PID: 1, Handle: 1, Time: 7, Name: "b"}}
	if err := errors.Join(db.Batch(&tick.Batch{Functions: second}), db.Tick(&tick.Tick{Time: now, Final: true}), db.Close()); err != nil {
		t.Fatal(err)
	}
	segs, err := segment.OfSession(log.Dir(LogDir(db.Path())), "s")
	if err != nil || len(segs) != 2 {
		t.Fatalf("%d segments, %v", len(segs), err)
	}
	for i, want := range [][]events.Function{first, append(slices.Clone(first), second...)} {
		if d := cmp.Diff(want, functionsIn(t, log.Dir(LogDir(db.Path())), &segs[i])); d != "" {
			t.Errorf("segment %d (-want +got):\n%s", i, d)
		}
	}
	// Repair can restore the SQLite file's names from the segments.
	const count = "SELECT (SELECT count(*) FROM functions), (SELECT count(*) FROM names)"
	if got := testkit.Rows(t, db.Path(), count); got != "3 2" {
		t.Errorf("%s functions and names, want 3 and 2", got)
	}
	restoreFile(t, db.Path(), db.Session().ID)
	if got := testkit.Rows(t, db.Path(), count); got != "3 2" {
		t.Errorf("after the repair: %s functions and names, want 3 and 2", got)
	}
}

// functionsIn returns a segment's function names.
func functionsIn(t *testing.T, files log.Files, s *segment.Info) (got []events.Function) {
	t.Helper()
	eachEntry(t, files, s, func(e *segment.Entry) { got = append(got, e.Functions...) })
	return got
}

// eachEntry visits a segment's entries up to the first damage.
func eachEntry(t *testing.T, files log.Files, s *segment.Info, visit func(*segment.Entry)) {
	t.Helper()
	f, err := segment.OpenSegment(files, s)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	l, err := segment.OpenLog(f, f.Size())
	if err != nil {
		t.Fatal(err)
	}
	var e segment.Entry
	for l.Next(&e) == nil {
		visit(&e)
	}
}
