package maintain

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"ingero/internal/store"
	"ingero/internal/store/segment"
	"ingero/internal/store/storetest"
	"ingero/internal/testkit"
	"ingero/internal/tick"
)

// two is a database of two sessions with several segments each. It is recorded once, since that is
// slow.
var two struct {
	sync.Once
	ids   []string
	files map[string][]byte
}

// recordTwo returns a copy of the database for the test.
func recordTwo(t *testing.T) (path string, ids []string) {
	t.Helper()
	two.Do(func() {
		var path string
		path, two.ids = recordSessions(t)
		two.files = map[string][]byte{}
		err := filepath.WalkDir(filepath.Dir(path), func(name string, d fs.DirEntry, err error) error {
			if err == nil && !d.IsDir() {
				two.files[strings.TrimPrefix(name, filepath.Dir(path))], err = os.ReadFile(name)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	})
	path = filepath.Join(t.TempDir(), "x.db")
	err := os.Mkdir(store.LogDir(path), 0o700)
	for name, b := range two.files {
		err = errors.Join(err, os.WriteFile(filepath.Join(filepath.Dir(path), name), b, 0o600))
	}
	if err != nil {
		t.Fatal(err)
	}
	return path, two.ids
}

func recordSessions(t *testing.T) (path string, ids []string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "x.db")
	for n := range 2 {
		now := storetest.Began
		db, err := store.Open(store.Options{
			Path: path, Session: segment.Session{ID: fmt.Sprintf("gpu-7-%d", n), Node: "gpu-7", Started: now, Target: "all"},
			MaxBytes: 64 << 20, // its segments are the smallest
			Now:      func() time.Time { return now }, AfterFunc: func(time.Duration, func()) func() bool { return func() bool { return true } },
		})
		if err != nil {
			t.Fatal(err)
		}
		g, k := storetest.NewGenerator(uint64(7+n)), storetest.NewKernel()
		for i := range 16 {
			now = now.Add(time.Second)
			b := tick.Batch{Calls: g.Calls(nil, 2500), Waits: g.Waiting.Waits(nil, 50, now.Add(-time.Second), time.Second)}
			for j := range b.Calls { // as old as their calls
				b.Calls[j].Start = now.UnixNano() - int64(len(b.Calls)-j)*24e4
			}
			k.See(b.Calls)
			if err := errors.Join(db.Batch(&b), db.Tick(k.Tick(uint64(i+1), now, i == 15))); err != nil {
				t.Fatal(err)
			}
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		ids = append(ids, db.Session().ID)
	}
	return path, ids
}

// execute changes rows of a database.
func execute(t *testing.T, path, text string, args ...any) {
	t.Helper()
	err := store.Hold(path, nil, func(h *store.Held) error {
		if err := h.OpenSQL(); err != nil {
			return err
		}
		_, err := h.SQL.Exec(text, args...)
		return errors.Join(err, h.Settle())
	})
	if err != nil {
		t.Fatal(err)
	}
}

// rowsOf returns all rows that a log can restore.
func rowsOf(t *testing.T, path string) string {
	t.Helper()
	var b strings.Builder
	names := testkit.Rows(t, path, "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT IN ('chains', 'sessions') AND name IN (SELECT m.name FROM sqlite_schema m JOIN pragma_table_info(m.name) c WHERE c.name = 'session') ORDER BY name")
	for name := range strings.SplitSeq(names, "\n") {
		columns := testkit.Rows(t, path, "SELECT group_concat('r.' || name, ', ') FROM pragma_table_info(?) WHERE name <> 'session'", name)
		fmt.Fprintln(&b, name, testkit.Rows(t, path, fmt.Sprintf("SELECT s.uid, %[1]s FROM %[2]s r JOIN sessions s ON s.id = r.session ORDER BY 1, %[1]s", columns, name)))
	}
	columns := testkit.Rows(t, path, "SELECT group_concat(name, ', ') FROM pragma_table_info('sessions') WHERE name <> 'id'")
	fmt.Fprintln(&b, testkit.Rows(t, path, "SELECT "+columns+" FROM sessions ORDER BY uid"))
	return b.String()
}
