package store

import (
	"errors"
	"ingero/internal/store/log"
	"ingero/internal/store/segment"
	"ingero/internal/tick"
	"ingero/pkg/events"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
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
	count := func() (n, names int) {
		lite, err := openSQL(db.Path(), func() error { return nil })
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = lite.Close() }()
		if err := lite.QueryRow("SELECT (SELECT count(*) FROM functions), (SELECT count(*) FROM names)").Scan(&n, &names); err != nil {
			t.Fatal(err)
		}
		return n, names
	}
	if n, names := count(); n != 3 || names != 2 {
		t.Errorf("%d functions and %d names, want 3 and 2", n, names)
	}
	restoreFile(t, db.Path(), db.Session().ID)
	if n, names := count(); n != 3 || names != 2 {
		t.Errorf("after the repair: %d functions and %d names, want 3 and 2", n, names)
	}
}

// functionsIn returns a segment's function names.
func functionsIn(t *testing.T, files log.Files, s *segment.Info) (got []events.Function) {
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
		got = append(got, e.Functions...)
	}
	return got
}
