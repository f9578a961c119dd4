package store

import (
	"encoding/json"
	"errors"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"ingero/internal/store/segment"
	"ingero/internal/tick"
)

// leftOut is the drop reason of rows that are missing from the SQLite file: names of functions, labels,
// faults and causes that came while too many were queued, and reads of inference servers with invalid
// numbers.
const leftOut = "rows-left-out"

// steadyTick returns the tick by the clock of the calls, without reads that cannot be encoded.
func (db *DB) steadyTick(t *tick.Tick) *tick.Tick {
	kept := *t
	kept.Time = db.steady(t.Time)
	kept.Inference = slices.DeleteFunc(slices.Clone(t.Inference), func(x tick.Inference) bool {
		_, err := json.Marshal(x)
		return err != nil
	})
	db.saver.leftOut += uint64(len(t.Inference) - len(kept.Inference))
	return &kept
}

// withOwn returns a tick's drops with the recording's own.
func (db *DB) withOwn(drops []tick.Drop) []tick.Drop {
	drops = slices.Clone(drops)
	for _, d := range []tick.Drop{{Reason: segment.DiskFull, Count: db.unkept}, {Reason: leftOut, Count: db.saver.leftOut}} {
		if d.Count > 0 {
			drops = append(drops, d)
		}
	}
	return drops
}

// fail pauses the recording if the disk is full, and ends it otherwise. It stores the reason in the
// DB and in the recording.
func (db *DB) fail(path string, err error) error {
	if err = inWords(path, err); !errors.Is(err, unix.ENOSPC) && db.noRoom() {
		err = &FullError{path, err}
	}
	db.problem.Store(&err)
	db.freeReserve()
	db.unkept += uint64(db.log.Drop())
	if errors.Is(err, unix.ENOSPC) {
		db.paused = err
		_ = db.saver.end(&segment.End{Time: db.o.Now(), State: "full", Problem: err.Error()})
		return nil
	}
	db.failed = err
	end := segment.End{Time: db.o.Now(), State: "failed", Problem: err.Error()}
	_ = errors.Join(db.log.End(end), db.log.Flush()) // same disk; the first error counts
	_ = db.saver.end(&end)
	return db.failed
}

// noRoom reports whether the disk or the quota has no room for the reserve once more. SQLite does not
// say why a write failed, unless the disk was full: not if a quota was.
func (db *DB) noRoom() bool {
	if db.reserve == nil {
		return false
	}
	err := unix.Fallocate(int(db.reserve.Fd()), 0, reserve, reserve)
	return errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT)
}

// resume continues a paused recording in a new segment, if there is room again.
func (db *DB) resume() bool {
	db.prune(reserve)
	for _, f := range []*os.File{db.held.Dir, db.held.main} { // these may be on different disks
		var fs unix.Statfs_t
		if err := unix.Fstatfs(int(f.Fd()), &fs); err != nil || int64(fs.Bavail)*fs.Bsize < resumeRoom {
			return false
		}
	}
	err := db.makeRoom(resumeRoom) // a quota is not in the numbers above
	if err == nil {
		err = db.rotate()
	}
	if err == nil { // the pause's last write could wait long
		_, err = db.held.SQL.Exec(waitShort)
	}
	if err != nil {
		db.freeReserve()
		return false
	}
	db.paused = nil
	db.problem.Store(nil)
	return true
}

// errRemoved means that the open files have been deleted.
var errRemoved = errors.New("the database was removed during recording")

// removed returns an error if the database has been deleted: writes would still succeed, but nobody
// could read them.
func (db *DB) removed() error {
	for _, f := range []*os.File{db.held.main, db.held.Dir, db.file} {
		var s unix.Stat_t
		if err := unix.Fstat(int(f.Fd()), &s); err == nil && s.Nlink == 0 {
			return errRemoved
		}
	}
	return nil
}

// noFiles reports whether a file could not be opened because too many are open.
func noFiles(err error) bool { return errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE) }
