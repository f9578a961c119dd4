package store

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"ingero/internal/store/log"
	"ingero/internal/store/retention"
	"ingero/internal/store/segment"
	"ingero/internal/store/storetest"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

// A segment can be read alone: it begins with the stacks, beyond the limit with the latest.
func TestNextSegmentHasTheStacks(t *testing.T) {
	now := time.Unix(1000, 0)
	db, err := Open(Options{Path: t.TempDir() + "/x.db", Session: segment.Session{ID: "s", Node: "n"}, Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	list := storetest.SomeStacks(60)
	first, second := list[:50], list[50:]
	if err := db.Batch(&tick.Batch{Stacks: first}); err != nil {
		t.Fatal(err)
	}
	db.mu.Lock()
	err = errors.Join(db.flush(), db.rotate())
	db.mu.Unlock()
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(db.Batch(&tick.Batch{Stacks: second}), db.Tick(&tick.Tick{Time: now, Final: true}), db.Close()); err != nil {
		t.Fatal(err)
	}
	segs, err := segment.OfSession(log.Dir(LogDir(db.Path())), "s")
	if err != nil || len(segs) != 2 {
		t.Fatalf("%d segments, %v", len(segs), err)
	}
	for i, want := range [][]events.Stack{first, list} {
		if d := cmp.Diff(want, stacksIn(t, log.Dir(LogDir(db.Path())), &segs[i])); d != "" {
			t.Errorf("segment %d (-want +got):\n%s", i, d)
		}
	}
	// Repair can restore the SQLite file's rows from the segments.
	const what = "SELECT (SELECT group_concat(id || pid || cut || site || frames) FROM stacks), (SELECT group_concat(id || kind || func || file || module) FROM frames)"
	rows := func() (out [2]string) {
		lite, err := openSQL(db.Path(), Schema(), func() error { return nil })
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = lite.Close() }()
		if err := lite.QueryRow(what).Scan(&out[0], &out[1]); err != nil {
			t.Fatal(err)
		}
		return out
	}
	before := rows()
	restoreFile(t, db.Path(), db.Session().ID)
	if d := cmp.Diff(before, rows()); d != "" {
		t.Errorf("after the repair (-want +got):\n%s", d)
	}
}

// stacksIn returns a segment's stacks.
func stacksIn(t *testing.T, files log.Files, s *segment.Info) (got []events.Stack) {
	t.Helper()
	eachEntry(t, files, s, func(e *segment.Entry) { got = append(got, e.Stacks...) })
	return got
}

// The stacks in SQLite are bounded.
func TestSavedStacksAreBounded(t *testing.T) {
	for bound, most := range map[int64]int{0: maxSavedStacks, 10 << 30: maxSavedStacks, 16 << 20: 4096} {
		v := &saver{rows: &retention.Rows{Bound: bound}}
		for range 3 {
			v.addStacks(make([]events.Stack, maxSavedStacks/2))
		}
		if n := len(v.stacks.waiting); n != most {
			t.Errorf("where %d bytes may be taken %d stacks wait to be saved, want %d", bound, n, most)
		}
	}
}
