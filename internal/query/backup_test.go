package query

import (
	"context"
	"database/sql"
	"errors"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"ingero/internal/store"
	"ingero/internal/store/log"
	"ingero/internal/store/segment"
	"ingero/pkg/events"
)

func backup(t *testing.T, r *Reader) (string, *Backup) {
	t.Helper()
	to := filepath.Join(t.TempDir(), "backup")
	b, err := r.Backup(context.Background(), to)
	if err != nil {
		t.Fatal(err)
	}
	return to, b
}

// same compares all answers of two databases.
func same(t *testing.T, what string, a, b *Reader) {
	t.Helper()
	ctx := context.Background()
	all := func(r *Reader) (out []events.Call) {
		cover, err := r.Each(ctx, Filter{Session: AllSessions}, func(_ *Session, c *events.Call, _ uint64) bool {
			out = append(out, *c)
			return true
		})
		if err != nil || len(cover.Missing)+len(cover.Damage) > 0 {
			t.Errorf("%s: %v, %+v", what, err, cover)
		}
		return out
	}
	want := all(a)
	if len(want) == 0 {
		t.Errorf("%s: there are no calls: this shows nothing", what)
	}
	if d := cmp.Diff(want, all(b)); d != "" {
		t.Errorf("%s: calls: %.2000s", what, d)
	}
	sessions, err := a.Sessions(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for i := range sessions {
		sameSummary(t, what, a, b, sessions[i].ID)
	}
}

// sameSummary compares the stored summaries of a session.
func sameSummary(t *testing.T, what string, a, b *Reader, id string) {
	t.Helper()
	opts := cmp.Options{cmpopts.IgnoreFields(Session{}, "State", "Ended", "id", "LogBytes", "segs"), cmp.Exporter(func(reflect.Type) bool { return true }), cmpopts.EquateEmpty()}
	if d := cmp.Diff(summary(t, a, Filter{Session: id}), summary(t, b, Filter{Session: id}), opts); d != "" {
		t.Errorf("%s: session %s: %.2000s", what, id, d)
	}
}

// A backup made during a recording is one file that answers as the database did, and so does its
// own backup.
func TestBackupOfLive(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.db")
	old := record(t, path, segment.Session{ID: "old", Started: began})
	old.second()
	old.close()
	x := record(t, path, segment.Session{ID: "live", Started: began.Add(1e12)})
	x.second()
	r := openReader(t, path)
	one, b := backup(t, r)
	if b.Files != 2 || b.Cut != 0 || b.Bytes == 0 {
		t.Errorf("%+v", b)
	}
	first := openReader(t, one)
	same(t, "backup", r, first)
	if s, err := first.Session(context.Background(), "live"); err != nil || s.State != "interrupted" {
		t.Errorf("nobody records to a backup, but its session is %s (%v)", s.State, err)
	}
	two, _ := backup(t, first)
	same(t, "backup of a backup", r, openReader(t, two))
	x.second()
	three, _ := backup(t, r)
	same(t, "later", r, openReader(t, three))
	if entries, err := os.ReadDir(filepath.Dir(three)); err != nil || len(entries) != 1 {
		t.Errorf("more than one file: %v, %v", entries, err)
	}
}

// A backup omits incomplete frames.
func TestBackupCuts(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.db")
	x := record(t, path, segment.Session{ID: "one"})
	x.second()
	log, err := os.OpenFile(filepath.Join(store.LogDir(path), "one-000000.ilog"), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	info, err := log.Stat()
	if err != nil {
		t.Fatal(err)
	}
	head := make([]byte, 40)
	if _, err := log.ReadAt(head, 8); err != nil { // start of a frame
		t.Fatal(err)
	}
	if _, err := log.WriteAt(head, info.Size()); err != nil {
		t.Fatal(err)
	}
	r := openReader(t, path)
	to, b := backup(t, r)
	if b.Cut != 40 || b.Bytes != info.Size() {
		t.Errorf("%+v, want %d bytes and 40 cut", b, info.Size())
	}
	same(t, "cut", r, openReader(t, to))
}

// A damaged log is copied unchanged, so that the damage stays visible.
func TestBackupKeepsDamage(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.db")
	x := record(t, path, segment.Session{ID: "one"})
	x.second()
	x.close()
	log := filepath.Join(store.LogDir(path), "one-000000.iseg")
	b, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	for i := range b[len(b)/8 : len(b)/2] { // in the calls
		b[len(b)/8+i] ^= 1
	}
	if err := os.WriteFile(log, b, 0o600); err != nil {
		t.Fatal(err)
	}
	to, info := backup(t, openReader(t, path))
	cover, err := openReader(t, to).Each(context.Background(), Filter{}, func(*Session, *events.Call, uint64) bool { return true })
	if err != nil || len(cover.Damage) != 1 || info.Bytes != int64(len(b)) {
		t.Errorf("%+v, %+v, %v", info, cover, err)
	}
}

// A file in a backup reads as any other, wherever its pieces end, and a missing piece is an error.
func TestPieces(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.db")
	x := record(t, path, segment.Session{ID: "one"})
	x.second()
	x.close()
	to, _ := backup(t, openReader(t, path))
	want, err := os.ReadFile(filepath.Join(store.LogDir(path), "one-000000.iseg"))
	if err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("sqlite", to)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	exec := func(q string, args ...any) {
		t.Helper()
		if _, err := db.Exec(q, args...); err != nil {
			t.Fatal(err)
		}
	}
	exec("DELETE FROM files")
	for at := 0; at < len(want); at += 1000 {
		exec("INSERT INTO files VALUES ('one-000000.iseg', ?, ?)", at, want[at:min(at+1000, len(want))])
	}
	same(t, "in pieces", openReader(t, path), openReader(t, to))
	r := openReader(t, to)
	f, err := r.files.Open("one-000000.iseg")
	if err != nil {
		t.Fatal(err)
	}
	all, err := io.ReadAll(io.NewSectionReader(f, 0, f.Size()))
	if d := cmp.Diff(want, all); d != "" || err != nil {
		t.Error("it reads otherwise", err)
	}
	if n, err := f.ReadAt(make([]byte, 10), f.Size()-4); n != 4 || !errors.Is(err, io.EOF) {
		t.Errorf("at the end: %d, %v", n, err)
	}
	exec("DELETE FROM files WHERE at = 1000")
	if f, err = r.files.Open("one-000000.iseg"); err != nil {
		t.Fatal(err)
	}
	if _, err := f.ReadAt(make([]byte, 10), 995); !errors.Is(err, log.ErrCorrupt) {
		t.Errorf("a piece is missing: %v", err)
	}
	if _, err := r.files.Open("two.ilog"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no such file: %v", err)
	}
}

// A copy of a database on a read-only disk can be backed up.
func TestBackupReadOnly(t *testing.T) {
	dir := t.TempDir()
	x := record(t, filepath.Join(dir, "x.db"), segment.Session{ID: "closed"})
	x.second()
	x.close()
	readOnly(t, dir)
	r := openReader(t, filepath.Join(dir, "x.db"))
	to, _ := backup(t, r)
	same(t, "read-only", r, openReader(t, to))
	if _, err := r.db.Exec("DELETE FROM sessions"); err == nil {
		t.Error("after a backup the reader can write")
	}
}
