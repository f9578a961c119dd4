package query

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ingero/internal/store"
)

// A truncated SQLite file gives correct answers, or an error that says it is damaged and which
// command repairs it.
func TestSQLiteCutShort(t *testing.T) {
	from := filepath.Join(t.TempDir(), "x.db")
	few(t, from, 40).close()
	whole, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	const page = 4096
	damaged, right := 0, ""
	for n := len(whole); n >= 0; n -= page {
		path := filepath.Join(t.TempDir(), "x.db")
		if err := errors.Join(os.CopyFS(store.LogDir(path), os.DirFS(store.LogDir(from))), os.WriteFile(path, whole[:n], 0o600)); err != nil {
			t.Fatal(err)
		}
		got, err := summed(t, path)
		switch {
		case n == len(whole):
			if right = got; err != nil {
				t.Fatal(err)
			}
		case err == nil && got != right:
			t.Errorf("%d of %d bytes: %s, want %s", n, len(whole), got, right)
		case err != nil && !errors.Is(err, ErrLost):
			t.Errorf("%d of %d bytes: %v", n, len(whole), err)
		case err != nil:
			damaged++
		}
	}
	if damaged < len(whole)/page/2 {
		t.Errorf("%d of %d times damage was found: the test shows nothing", damaged, len(whole)/page)
	}
}

// summed returns a database's summary of its session.
func summed(t *testing.T, path string) (_ string, err error) {
	t.Helper()
	r, err := Open(t.Context(), path)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	s, err := r.Summary(context.Background(), Filter{})
	if err != nil {
		return "", err
	}
	stats, c, err := r.OpStats(context.Background(), Filter{}, Group{})
	if err != nil || len(stats) != 1 {
		return "", errors.Join(err, fmt.Errorf("%d operations", len(stats)))
	}
	return fmt.Sprint(s.Session.State, s.Session.Records, len(s.Ops), len(s.Processes), stats[0].Sum, c), nil
}

// After a crash truncated its write-ahead log, a database has the state of an earlier tick.
func TestWriteAheadLogCutShort(t *testing.T) {
	from := filepath.Join(t.TempDir(), "x.db")
	x := few(t, from, 40)
	running, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	wal, err := os.ReadFile(from + "-wal")
	if err != nil || len(wal) == 0 {
		t.Fatal(len(wal), err)
	}
	records := uint64(0)
	for n := 0; n <= len(wal); n += 1 + len(wal)/100 {
		path := filepath.Join(t.TempDir(), "x.db")
		if err := errors.Join(os.WriteFile(path, running, 0o600), os.WriteFile(path+"-wal", wal[:n], 0o600)); err != nil {
			t.Fatal(err)
		}
		r, err := Open(t.Context(), path)
		if err != nil { // before the first transactions
			if !errors.Is(err, store.ErrNotDatabase) || records > 0 {
				t.Errorf("%d of %d bytes of the write-ahead log: %v", n, len(wal), err)
			}
			continue
		}
		s, err := r.Session(context.Background(), "")
		if err := r.Close(); err != nil {
			t.Error(err)
		}
		if err != nil && (!errors.Is(err, ErrNoSession) || records > 0) || s.Records < records || s.Records > uint64(len(x.calls)) {
			t.Errorf("%d of %d bytes of the write-ahead log: %d records, %d with less (%v)", n, len(wal), s.Records, records, err)
		}
		records = s.Records
	}
	if records < uint64(len(x.calls))/2 {
		t.Errorf("%d records at the end: the test shows nothing", records)
	}
}

// Without its SQLite file a database can be repaired, and the error names the command.
func TestSQLiteLost(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.db")
	few(t, path, 1).close()
	for name, damage := range map[string]func() error{
		"removed": func() error { return os.Remove(path) },
		"empty":   func() error { return os.WriteFile(path, nil, 0o600) },
		"text":    func() error { return os.WriteFile(path, bytes.Repeat([]byte("text"), 5000), 0o600) },
	} {
		if err := damage(); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(t.Context(), path); !errors.Is(err, ErrLost) || !strings.Contains(err.Error(), "ingero db repair") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
