package query

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"ingero/internal/store"
	"ingero/internal/store/maintain"
	"ingero/internal/store/segment"
	"ingero/internal/wire"
)

func verified(t *testing.T, path string, full bool) *wire.Verified {
	t.Helper()
	v, err := Verify(context.Background(), path, VerifyOptions{Full: full})
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// ended records a session of some seconds.
func ended(t *testing.T, seconds int) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "x.db")
	x := record(t, path, segment.Session{ID: "one", Node: "gpu-7"})
	for range seconds {
		x.second()
	}
	x.close()
	return path
}

// Verify finds a sum that differs from its calls, and an orphan row.
func TestVerifyComparesSums(t *testing.T) {
	for name, tt := range map[string]struct {
		sql, want string
		damage    int
	}{
		"whole":       {"", "", 0},
		"a count":     {"UPDATE rollups SET errors = errors + 1 WHERE seconds = 1 AND start_ns = (SELECT min(start_ns) FROM rollups WHERE seconds = 1) AND pid = 4821", "sums of session one for the second from", 1},
		"a sketch":    {"UPDATE rollups SET sketch = (SELECT sketch FROM rollups WHERE seconds = 3600 ORDER BY length(sketch) DESC LIMIT 1) WHERE seconds = 1 AND start_ns = (SELECT min(start_ns) FROM rollups WHERE seconds = 1) AND pid = 4830", "sums of session one", 1},
		"too many":    {"INSERT INTO rollups SELECT session, seconds, start_ns, 7, op, calls, done, errors, nested, unmeasured, total_ns, oncpu_ns, runnable_ns, throttled_ns, partial, partial_ns, thinned, sketch FROM rollups WHERE seconds = 1 AND pid = 4821 AND start_ns = (SELECT min(start_ns) FROM rollups WHERE seconds = 1)", "sums of session one", 1},
		"one is gone": {"DELETE FROM rollups WHERE seconds = 1 AND pid = 4821 AND start_ns = (SELECT min(start_ns) FROM rollups WHERE seconds = 1)", "sums of session one", 1},
		"no session":  {"INSERT INTO drops VALUES (99, 'ring-full', 1)", "a row of table drops refers to a missing row of sessions", 1},
		"not known":   {"DELETE FROM sessions", "it lacks session one", -1},
	} {
		t.Run(name, func(t *testing.T) {
			path := ended(t, 5)
			if tt.sql != "" {
				change(t, path, tt.sql)
			}
			for _, full := range []bool{false, true} {
				v := verified(t, path, full)
				if tt.damage >= 0 && len(v.Damage) != tt.damage || tt.damage < 0 && len(v.Damage) == 0 {
					t.Errorf("full %v: found %+v", full, v.Damage)
				}
				if tt.want != "" && !strings.Contains(v.Damage[len(v.Damage)-1].What, tt.want) {
					t.Errorf("full %v: found %q, want %q", full, v.Damage[len(v.Damage)-1].What, tt.want)
				}
				if name == "whole" && (v.Seconds < 5 || v.Calls == 0 || v.Recording) {
					t.Errorf("full %v: %+v", full, v)
				}
			}
		})
	}
}

// Verify handles a live recording and a backup.
func TestVerifyOfLiveAndBackup(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.db")
	x := record(t, path, segment.Session{ID: "one", Node: "gpu-7"})
	for range 3 {
		x.second()
	}
	if v := verified(t, path, true); len(v.Damage)+len(v.Leftovers) > 0 || !v.Recording || v.Seconds < 2 {
		t.Errorf("live: %+v", v)
	}
	x.close()
	copied, _ := backup(t, openReader(t, path))
	if v := verified(t, copied, true); len(v.Damage) > 0 || v.Segments != 1 || v.Calls == 0 {
		t.Errorf("a backup: %+v", v)
	}
}

// Segments are verified whatever the SQLite file contains; without segments, an unreadable file is
// rejected as foreign.
func TestVerifyWithoutSQLite(t *testing.T) {
	path := ended(t, 2)
	if err := os.WriteFile(path, []byte("nothing of the kind, but long enough for a head"), 0o600); err != nil {
		t.Fatal(err)
	}
	if v := verified(t, path, false); len(v.Damage) != 1 || v.Calls == 0 {
		t.Errorf("found %+v", v)
	}
	if err := os.RemoveAll(store.LogDir(path)); err != nil {
		t.Fatal(err)
	}
	if _, err := Verify(context.Background(), path, VerifyOptions{}); !errors.Is(err, store.ErrNotDatabase) {
		t.Errorf("without segments: %v", err)
	}
}

// A database restored from segments gives the same answers.
func TestRepairedAnswersTheSame(t *testing.T) {
	ctx := context.Background()
	path := ended(t, 6)
	ask := func() (*Summary, []Session) {
		r := openReader(t, path)
		sum, err := r.Summary(ctx, Filter{})
		if err != nil {
			t.Fatal(err)
		}
		all, err := r.Sessions(ctx)
		if err != nil {
			t.Fatal(err)
		}
		return sum, all
	}
	sum, sessions := ask()
	if len(sum.Ops) == 0 {
		t.Fatal("there are no operations: this shows nothing")
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if _, err := maintain.Repair(ctx, path, nil, nil); err != nil {
		t.Fatal(err)
	}
	again, restored := ask()
	if !reflect.DeepEqual(sum, again) {
		t.Errorf("the summary is %+v, and was %+v", again, sum)
	}
	if !reflect.DeepEqual(sessions, restored) {
		t.Errorf("sessions are %+v, and were %+v", restored, sessions)
	}
	if v := verified(t, path, true); len(v.Damage) > 0 {
		t.Errorf("found %+v", v.Damage)
	}
}

func TestInfo(t *testing.T) {
	path := ended(t, 3)
	r := openReader(t, path)
	i, err := r.Info(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	calls, err := r.Calls(context.Background(), Filter{}, 0)
	if err != nil {
		t.Fatal(err)
	}
	if i.Calls != uint64(len(calls)) || !i.From.Equal(unixTime(calls[0].Start)) || i.Sealed.Files != 1 || i.Hot.Files != 0 || i.Recording || len(i.Sessions) != 1 {
		t.Errorf("info is %+v, want %d calls from %v", i, len(calls), unixTime(calls[0].Start))
	}
	if len(i.Tiers) != 5 || i.Tiers[0].Seconds != 1 || i.Tiers[0].Rows == 0 || !i.Tiers[0].From.Equal(began) {
		t.Errorf("tiers are %+v", i.Tiers)
	}
	if i.SQLite == 0 || i.Sealed.Bytes == 0 || i.Bytes < i.SQLite+i.Sealed.Bytes {
		t.Errorf("sizes are %+v", i)
	}
}
