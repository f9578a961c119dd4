package query

import (
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"ingero/pkg/events"
)

// withoutFirst is a recording of six segments whose first one is deleted.
func withoutFirst(t *testing.T) (*session, *Reader) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "x.db")
	x := rotating(t, path)
	x.close()
	r := openReader(t, path)
	delete(intoMemory(t, r), "s-000000.iseg")
	return x, r
}

// Calls of a window are missing only if the window begins before the oldest kept segment.
func TestDeletedBeforeTheWindow(t *testing.T) {
	x, r := withoutFirst(t)
	kept, _, err := each(t, r)
	if err != nil || len(kept) == 0 {
		t.Fatal(len(kept), err)
	}
	oldest := kept[uint64(len(x.calls)-len(kept))]
	for _, tt := range []struct {
		name string
		f    Filter
		want []string
	}{
		{"all", Filter{Session: "s"}, []string{"s"}},
		{"after the oldest kept segment", Filter{Session: "s", From: time.Unix(0, oldest.Start).Add(40 * time.Second)}, nil},
		{"in the last segments", Filter{Session: "s", From: x.now.Add(-1500 * time.Millisecond)}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for what, ask := range map[string]func() (Coverage, error){
				"Each": func() (Coverage, error) {
					return r.Each(t.Context(), tt.f, func(*Session, *events.Call, uint64) bool { return true })
				},
				"OpStats": func() (Coverage, error) { _, c, err := r.OpStats(t.Context(), tt.f, Group{Stack: true}); return c, err },
				"stacks":  func() (Coverage, error) { _, _, c, err := r.StackSums(t.Context(), tt.f); return c, err },
				"slices":  func() (Coverage, error) { return r.Slices(t.Context(), tt.f, 0, 0, func(*Slice) {}) },
			} {
				if c, err := ask(); err != nil || !slices.Equal(c.Missing, tt.want) || len(c.Damage) > 0 {
					t.Errorf("%s: missing %q, damage %q, %v; want missing %q", what, c.Missing, c.Damage, err, tt.want)
				}
			}
		})
	}
}

// A statement reports deleted segments. With a time in it, it opens only the segments of that time,
// besides the first.
func TestStatementsAfterDeletion(t *testing.T) {
	x, r := withoutFirst(t)
	for _, table := range []string{"events", "waits"} {
		if c := ask(t, r, "SELECT count(*) FROM "+table).Coverage; !slices.Equal(c.Missing, []string{"s"}) {
			t.Errorf("%s: %+v", table, c)
		}
		files := opened{r.files, map[string]int{}}
		r.files = files
		ask(t, r, fmt.Sprintf("SELECT count(*) FROM %s WHERE timestamp >= %d", table, x.now.Add(-time.Second).UnixNano()))
		if files.times["s-000002.iseg"] > 0 || files.times["s-000005.iseg"] == 0 {
			t.Errorf("%s: opened %v", table, files.times)
		}
		r.files = files.Files
	}
}
