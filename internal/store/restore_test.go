package store

import (
	"errors"
	"os"
	"testing"

	"ingero/internal/store/log"
	"ingero/internal/store/segment"
)

// restoreFile replaces a database's SQLite file by what the only session's log restores.
func restoreFile(t *testing.T, path, session string) {
	t.Helper()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	l, err := segment.OpenSession(log.Dir(LogDir(path)), session)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(Restore(t.Context(), path, l, func(uint64) {}), l.Close()); err != nil {
		t.Fatal(err)
	}
}
