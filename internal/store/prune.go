package store

import (
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// logInfo is another session's log.
type logInfo struct {
	name  string
	bytes int64
	mod   time.Time
}

// logs returns the logs of other sessions, the oldest first.
func (db *DB) logs() []logInfo {
	entries, err := os.ReadDir(db.dir.Name())
	if err != nil {
		return nil
	}
	var out []logInfo
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), logSuffix) || e.Name() == db.o.Session.ID+logSuffix {
			continue
		}
		if s, err := e.Info(); err == nil && s.Mode().IsRegular() {
			out = append(out, logInfo{e.Name(), s.Size(), s.ModTime()})
		}
	}
	slices.SortFunc(out, func(a, b logInfo) int { return a.mod.Compare(b.mod) })
	return out
}

func (db *DB) otherLogs() (bytes int64) {
	for _, l := range db.logs() {
		bytes += l.bytes
	}
	return bytes
}

// measure brings the size up to date.
func (db *DB) measure() {
	db.size.Store(db.kept() + fileSize(db.o.Path+"-wal") + fileSize(db.o.Path+"-shm"))
}

// kept is what stays when nobody has the database open.
func (db *DB) kept() int64 { return db.others + db.log.size + fileSize(db.o.Path) }

func fileSize(path string) int64 {
	s, err := os.Lstat(path)
	if err != nil {
		return 0
	}
	return s.Size()
}

// prune makes room under MaxBytes: it removes other sessions' logs, the oldest
// first, and where that is not enough keeps no more calls of this one. Readers
// that have a log open are not disturbed.
func (db *DB) prune(now time.Time) {
	full := func() bool { return db.kept() > db.o.MaxBytes }
	if db.o.MaxBytes <= 0 || db.capped != 0 || !full() {
		return
	}
	for _, l := range db.logs() {
		if err := unix.Unlinkat(int(db.dir.Fd()), l.name, 0); err != nil {
			continue
		}
		_, _ = db.sql.Exec(sqlPruned, l.name) // a reader finds out in any case
		db.others -= l.bytes
		if !full() {
			return
		}
	}
	db.capped = now.UnixNano()
}
