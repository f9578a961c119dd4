package store

import (
	"errors"
	"slices"

	"golang.org/x/sys/unix"

	"ingero/internal/tick"
)

// dropUnkept is the reason for which calls and waits were dropped that there was no
// room for.
const dropUnkept = "disk-full"

// withUnkept returns the tick with what was not kept for want of room.
func (db *DB) withUnkept(t *tick.Tick) *tick.Tick {
	if db.unkept == 0 {
		return t
	}
	with := *t
	with.Drops = append(slices.Clone(t.Drops), tick.Drop{Reason: dropUnkept, Count: db.unkept})
	return &with
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
	var fs unix.Statfs_t
	if err := unix.Fstatfs(int(db.dir.Fd()), &fs); err != nil || int64(fs.Bavail)*fs.Bsize < resumeRoom {
		return false
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
