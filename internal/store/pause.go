package store

import (
	"errors"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"ingero/internal/tick"
)

// dropUnkept is the reason for which calls and waits were dropped that there was no
// room for.
const dropUnkept = "disk-full"

// asKept returns the tick by the clock of the calls, with what was not kept for want of
// room.
func (db *DB) asKept(t *tick.Tick) *tick.Tick {
	kept := *t
	kept.Time = db.steady(t.Time)
	if db.unkept > 0 {
		kept.Drops = append(slices.Clone(t.Drops), tick.Drop{Reason: dropUnkept, Count: db.unkept})
	}
	return &kept
}

// fail pauses the recording where the disk is full, and ends it otherwise; it says
// why, here and in what was recorded.
func (db *DB) fail(path string, err error) error {
	err = inWords(path, err)
	db.problem.Store(&err)
	db.freeSpare()
	db.unkept += uint64(db.log.drop())
	if errors.Is(err, unix.ENOSPC) {
		db.paused = err
		_ = db.saver.end(&End{Time: db.o.Now(), State: "full", Problem: err.Error()})
		return nil
	}
	db.failed = err
	end := End{Time: db.o.Now(), State: "failed", Problem: err.Error()}
	_ = errors.Join(db.log.end(end), db.log.flush()) // the same disk; the first error counts
	_ = db.saver.end(&end)
	return db.failed
}

// resume goes on with a paused recording, in a segment of its own, if there is room
// again.
func (db *DB) resume() bool {
	db.prune(reserve)
	for _, f := range []*os.File{db.dir, db.main} { // which may lie on different disks
		var fs unix.Statfs_t
		if err := unix.Fstatfs(int(f.Fd()), &fs); err != nil || int64(fs.Bavail)*fs.Bsize < resumeRoom {
			return false
		}
	}
	err := db.makeRoom(db.places())
	if err == nil {
		err = db.rotate()
	}
	if err != nil {
		db.freeSpare()
		return false
	}
	db.paused = nil
	db.problem.Store(nil)
	return true
}

// errRemoved says that the files that are written have no name any more.
var errRemoved = errors.New("it was removed while it was being recorded to")

// removed says whether somebody has removed the database: the writes would go on,
// and nobody could ever read them.
func (db *DB) removed() error {
	for _, f := range []*os.File{db.main, db.dir, db.file} {
		var s unix.Stat_t
		if err := unix.Fstat(int(f.Fd()), &s); err == nil && s.Nlink == 0 {
			return errRemoved
		}
	}
	return nil
}

// noFiles says that a file could not be opened since too many are.
func noFiles(err error) bool { return errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE) }
