package maintain

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	diff "github.com/google/go-cmp/cmp"

	"ingero/internal/store"
	"ingero/internal/store/log"
	"ingero/internal/store/segment"
	"ingero/internal/store/storetest"
	"ingero/internal/testkit"
)

// A missing segment cannot be restored; verify reports it.
func TestVerifyTellsOfMissingSegments(t *testing.T) {
	path, ids := recordTwo(t)
	files := segmentsOf(t, path, ids[1])
	if err := os.Remove(files[1]); err != nil {
		t.Fatal(err)
	}
	v := verify(t, path)
	if len(v.Damage) != 1 || v.Damage[0].Calls < 1000 || !v.Broken[ids[1]] || v.Broken[ids[0]] {
		t.Errorf("found %+v", v)
	}
	repair(t, path)
}

// Repair keeps the readable rows of a damaged SQLite file for a session without segments.
func TestRepairSalvagesRows(t *testing.T) {
	path, ids := recordTwo(t)
	for _, name := range segmentsOf(t, path, ids[0]) {
		if err := os.Remove(name); err != nil {
			t.Fatal(err)
		}
	}
	const ops = "SELECT s.uid, o.pid, o.op, o.calls, o.total_ns FROM ops o JOIN sessions s ON s.id = o.session ORDER BY 1, 2, 3"
	want := testkit.Rows(t, path, ops)
	var page int
	if _, err := fmt.Sscan(testkit.Rows(t, path, "SELECT rootpage FROM sqlite_schema WHERE name = 'snapshots'"), &page); err != nil {
		t.Fatal(err)
	}
	change(t, path, func(b []byte) []byte {
		copy(b[(page-1)*4096:], "\xff\xfe\xfd\xfc\xfb\xfa\xf9\xf8\xf7")
		return b
	})
	r := repair(t, path)
	if len(r.Restored) != 1 || len(r.Copied) != 1 || r.Copied[0] != ids[0] || len(r.Kept) != 1 {
		t.Errorf("did %+v", r)
	}
	if got := testkit.Rows(t, path, ops); got != want {
		t.Errorf("operations are\n%s\nand were\n%s", got, want)
	}
}

// Segments have no chains. When another table is damaged, a repair copies the readable chains, both
// of sessions that it restores and of a session without segments.
func TestRepairTakesChainsOver(t *testing.T) {
	for _, name := range []string{"plain", "run#3", "a?b", "50%25"} {
		t.Run(name, func(t *testing.T) { testChainsTakenOver(t, name) })
	}
}

func testChainsTakenOver(t *testing.T, directory string) {
	path, ids := recordTwo(t)
	moved := filepath.Join(t.TempDir(), directory)
	if err := os.Rename(filepath.Dir(path), moved); err != nil {
		t.Fatal(err)
	}
	path = filepath.Join(moved, filepath.Base(path))
	execute(t, path, `INSERT INTO chains (session, id, rule, severity, pid, tid, op, name, lost_ns, lost_min_ns, lost_max_ns, window_ns, excess_ns, steps, slow,
		baseline, culprits, timeline, not_it) SELECT id, 'chain of ' || uid, 'cpu-taken', 'HIGH', 7, 7, 257, 'cudaLaunchKernel', 5, 4, 6, 100, 9, 3, 1, '', '[]', '[]', '[]' FROM sessions`)
	var page, size int64
	if _, err := fmt.Sscan(testkit.Rows(t, path, "SELECT rootpage, (SELECT page_size FROM pragma_page_size) FROM sqlite_schema WHERE name = 'rollups'"), &page, &size); err != nil {
		t.Fatal(err)
	}
	const chains = "SELECT c.id, c.rule, c.lost_ns FROM chains c JOIN sessions s ON s.id = c.session AND c.id = 'chain of ' || s.uid ORDER BY 1"
	want := testkit.Rows(t, path, chains)
	for _, s := range segmentsOf(t, path, ids[1]) {
		if err := os.Remove(s); err != nil {
			t.Fatal(err)
		}
	}
	change(t, path, func(b []byte) []byte {
		for i := range b[(page-1)*size : page*size] {
			b[(page-1)*size+int64(i)] = 0xff
		}
		return b
	})
	r := repair(t, path)
	if len(r.Restored) != 1 || len(r.Copied) != 1 || r.Copied[0] != ids[1] {
		t.Errorf("did %+v", r)
	}
	if got := testkit.Rows(t, path, chains); got != want || !strings.Contains(got, ids[0]) || !strings.Contains(got, ids[1]) {
		t.Errorf("chains:\n%s\nwant\n%s", got, want)
	}
}

// A database that is being recorded to can be neither repaired nor pruned.
func TestMaintenanceNeedsTheLock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.db")
	db, err := store.Open(store.Options{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	var held *store.LockedError
	if _, err := Repair(context.Background(), path, nil, nil); !errors.As(err, &held) {
		t.Errorf("repair: %v", err)
	}
	for _, dry := range []bool{false, true} {
		if _, err := Remove(context.Background(), Removal{Path: path, MaxBytes: 1, DryRun: dry}); !errors.As(err, &held) {
			t.Errorf("remove, dry %v: %v", dry, err)
		}
	}
}

// inUse returns the size of a closed database without its lock.
func inUse(t *testing.T, path string) int64 {
	t.Helper()
	n := store.FileSize(path)
	files, err := log.Dir(store.LogDir(path)).List()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if f.Name != "writer" {
			n += f.Bytes
		}
	}
	return n
}

// A dry run deletes nothing, not even the files that killed processes left. A removal deletes these.
func TestDryRunDeletesNothing(t *testing.T) {
	path, ids := recordTwo(t)
	left := []string{"." + segment.Name(ids[0], 0, true) + ".part", segment.Name(ids[0], 0, true) + ".tmp", segment.Name(ids[0], 0, false)}
	for _, name := range left {
		if err := os.WriteFile(filepath.Join(store.LogDir(path), name), []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, dry := range []bool{true, false} {
		if _, err := Remove(context.Background(), Removal{Path: path, MaxBytes: 1 << 40, DryRun: dry}); err != nil {
			t.Fatal(err)
		}
		for _, name := range left {
			if got := exists(filepath.Join(store.LogDir(path), name)); got != dry {
				t.Errorf("dry run %v: %s exists: %v", dry, name, got)
			}
		}
	}
}

func TestRemove(t *testing.T) {
	ctx := context.Background()
	for name, tt := range map[string]struct {
		o    func(path string, ids []string) Removal
		segs func(all [2]int) [2]int
		rows string
	}{
		"nothing is old":  {func(string, []string) Removal { return Removal{Before: storetest.Began.AddDate(-1, 0, 0)} }, func(all [2]int) [2]int { return all }, "2"},
		"all is old":      {func(string, []string) Removal { return Removal{Before: storetest.Began.AddDate(1, 0, 0)} }, func([2]int) [2]int { return [2]int{} }, "2"},
		"a session":       {func(_ string, ids []string) Removal { return Removal{Session: ids[0]} }, func(all [2]int) [2]int { return [2]int{0, all[1]} }, "1"},
		"its calls alone": {func(_ string, ids []string) Removal { return Removal{Session: ids[0], CallsOnly: true} }, func(all [2]int) [2]int { return [2]int{0, all[1]} }, "2"},
		"to a size":       {func(path string, ids []string) Removal { return Removal{MaxBytes: inUse(t, path) - 1} }, func(all [2]int) [2]int { return [2]int{all[0] - 1, all[1]} }, "2"},
	} {
		t.Run(name, func(t *testing.T) {
			path, ids := recordTwo(t)
			for i, name := range append(segmentsOf(t, path, ids[1]), segmentsOf(t, path, ids[0])...) { // a copy has lost their times
				if err := os.Chtimes(name, storetest.Began, storetest.Began.Add(time.Duration(-i)*time.Hour)); err != nil {
					t.Fatal(err)
				}
			}
			count := func() (n [2]int) {
				for i, id := range ids {
					segs, err := segment.OfSession(log.Dir(store.LogDir(path)), id)
					if err != nil {
						t.Fatal(err)
					}
					n[i] = len(segs)
				}
				return n
			}
			all := count()
			o := tt.o(path, ids)
			o.Path, o.DryRun = path, true
			would, err := Remove(ctx, o)
			if err != nil || count() != all {
				t.Fatalf("a dry run removes: %+v, %v", would, err)
			}
			o.DryRun = false
			did, err := Remove(ctx, o)
			if err != nil {
				t.Fatal(err)
			}
			if want := tt.segs(all); count() != want {
				t.Errorf("%v segments are left of %v, want %v", count(), all, want)
			}
			if name != "to a size" && !diff.Equal(would.Segments, did.Segments) {
				t.Errorf("removes %q, and would %q", did.Segments, would.Segments)
			}
			if got := testkit.Rows(t, path, "SELECT count(*) FROM sessions"); got != tt.rows {
				t.Errorf("%s sessions, want %s", got, tt.rows)
			}
			if o.MaxBytes > 0 && did.After > o.MaxBytes {
				t.Errorf("%d bytes are left, want at most %d", did.After, o.MaxBytes)
			}
			if v := verify(t, path); len(v.Damage) > 0 {
				t.Errorf("left %+v", v.Damage)
			}
		})
	}
}
