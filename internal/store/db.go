package store

import (
	"context"
	"errors"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"ingero/internal/store/retention"
	"ingero/internal/store/segment"
	"ingero/internal/tick"
)

const (
	flushEvery = 200 * time.Millisecond // less than the promised 250 ms, since writing takes time
	writeFrom  = 256 << 10              // bytes of full frames written at once: keeps flushes short
	reserve    = 256 << 10              // bytes kept free for an orderly end on a full disk
	resumeRoom = 2 << 20                // free bytes needed to resume: more than an end frees
)

// Options configure a recording. Path is required.
type Options struct {
	Path    string
	Session segment.Session
	// MaxBytes bounds all files of the database together; 0 is unbounded. The oldest segments are
	// deleted first, and rollups take at most a tenth.
	MaxBytes int64
	MaxAge   time.Duration // maximum age of a segment; 0: unbounded
	Owner    *Owner        // owner of new files; nil: this process's user
	Now      func() time.Time
	// AfterFunc runs a function later, to write calls in time when no more follow; nil is
	// [time.AfterFunc].
	AfterFunc func(d time.Duration, f func()) (stop func() bool)
}

// DB records a session: it is a sink. It writes calls and waits to the log within 250 ms, and
// counts once a second, so kill -9 loses no more than that. After a power failure, what is on the
// disk is readable; nothing more is guaranteed.
//
// While the disk or the user's quota is full, DB drops calls and counts, and Problem returns the reason. It
// keeps a bounded number of faults, causes and other facts of ticks, and writes them at the first tick
// that finds room, where it resumes. Any other write error ends the recording: that call and all later
// ones return it. Earlier data stays readable. Methods are safe for concurrent use.
type DB struct {
	o       Options
	held    *Held
	file    *os.File // current segment
	reserve *os.File

	started time.Time // when the database was opened

	mu      sync.Mutex // guards the fields below
	log     *segment.Writer
	seq     int // number of the current segment
	saver   *saver
	flushed time.Time
	synced  bool        // no sync of the log is in progress
	stop    func() bool // timer of the next flush; nil: none
	failed  error
	paused  error               // why the recording is paused: a full disk
	unkept  uint64              // calls and waits dropped during pauses
	kept    *retention.Segments // finished
	closed  bool
	closing error
	sealing sync.WaitGroup
	sealer  sync.Mutex // serializes sealing

	size    atomic.Int64
	problem atomic.Pointer[error]
}

// Open starts a recording. It returns a [LockedError] if another process records to this database,
// and an [UnsafeError] if root must not write there. If the file is something else, the error wraps
// [ErrNotDatabase]. On error Open leaves nothing open.
func Open(o Options) (*DB, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.AfterFunc == nil {
		o.AfterFunc = func(d time.Duration, f func()) func() bool { return time.AfterFunc(d, f).Stop }
	}
	if o.Session.Started.IsZero() {
		o.Session.Started = o.Now()
	}
	if o.Session.ID == "" {
		o.Session.ID = newID(&o.Session)
	}
	db := &DB{o: o, started: o.Now()}
	db.o.Now = func() time.Time { return db.steady(o.Now()) }
	if err := db.open(); err != nil {
		return nil, errors.Join(inWords(o.Path, err), db.release())
	}
	return db, nil
}

// steady converts a time to the clock of the calls: the wall clock when the database was opened,
// plus the time since. So wall-clock steps do not affect ticks or ages.
func (db *DB) steady(t time.Time) time.Time { return db.started.Add(t.Sub(db.started)) }

// open creates or opens all files. release closes them.
func (db *DB) open() (err error) {
	if db.o.Path == "" {
		return errors.New("the path of the database is empty")
	}
	if db.held, err = hold(db.o.Path, db.o.Owner); err != nil {
		return err
	}
	db.o.Path = db.held.Path
	if err := db.held.OpenSQL(); err != nil {
		return err
	}
	if FileSize(db.o.Path) > db.o.MaxBytes/2 && db.o.MaxBytes > 0 { // the file does not shrink while it is recorded to
		db.held.Vacuum(context.Background(), db.o.MaxBytes/10)
	}
	if err := db.makeRoom(reserve); err != nil {
		return err
	}
	if db.kept, err = retention.List(db.held.Dir, db.o.Now()); err != nil {
		return err
	}
	db.kept.DeleteLeftovers()
	if err := db.begin(0); err != nil {
		return err
	}
	if db.saver, err = newSaver(db.held.SQL, &db.o.Session); err != nil {
		return err
	}
	db.flushed, db.synced = db.o.Now(), true
	db.measure()
	db.sealLeftovers()
	return nil
}

// makeRoom reserves some disk space, if bytes of it are free. Not every file system supports that.
func (db *DB) makeRoom(bytes int64) (err error) {
	if db.reserve, err = db.held.Open(reserveName, 0); err != nil {
		return err
	}
	err = unix.Fallocate(int(db.reserve.Fd()), 0, 0, bytes)
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EINTR) {
		return nil
	}
	if err == nil {
		err = db.reserve.Truncate(reserve)
	}
	return pathError("allocate", db.reserve.Name(), err)
}

const reserveName = "spare"

// Path returns the path of the database file, with symbolic links resolved.
func (db *DB) Path() string { return db.o.Path }

// Session returns the recorded session with its ID.
func (db *DB) Session() segment.Session { return db.o.Session }

// Size returns the total size of the database's files in bytes, as of the last tick.
func (db *DB) Size() int64 { return db.size.Load() }

// Problem returns why the recording has stopped or is paused, nil if it has not.
func (db *DB) Problem() error {
	if p := db.problem.Load(); p != nil {
		return *p
	}
	return nil
}

// Batch implements [tick.Sink].
func (db *DB) Batch(b *tick.Batch) error {
	db.mu.Lock()
	defer db.mu.Unlock()
	if db.failed != nil || db.closed {
		return db.failed
	}
	db.log.Keep(b)
	db.saver.addFunctions(b.Functions)
	db.saver.addStacks(b.Stacks)
	db.saver.addLabels(b.Labels, b.Procs)
	if db.paused != nil {
		db.unkept += uint64(len(b.Calls) + len(b.Waits))
		return nil
	}
	db.saver.add(b.Calls)
	db.log.Add(b)
	if !db.log.Pending() {
		return nil
	}
	due := flushEvery - max(db.o.Now().Sub(db.flushed), 0)
	if due <= 0 {
		return db.flush()
	}
	if db.stop == nil {
		db.stop = db.o.AfterFunc(due, db.flushDue)
	}
	if db.log.Buffered() >= writeFrom {
		return db.write()
	}
	return nil
}

// flushDue flushes what has waited long enough. The next call returns its error.
func (db *DB) flushDue() {
	db.mu.Lock()
	defer db.mu.Unlock()
	db.stop = nil
	if db.failed == nil && db.paused == nil && !db.closed {
		_ = db.flush()
	}
}

func (db *DB) flush() error {
	if db.stop != nil {
		db.stop()
		db.stop = nil
	}
	db.flushed = db.o.Now()
	db.log.Cut()
	return db.write()
}

// write writes full frames only.
func (db *DB) write() error {
	db.prune(int64(db.log.Buffered()))
	if err := db.log.Write(); err != nil {
		return db.fail(db.file.Name(), err)
	}
	return nil
}

// Tick implements [tick.Sink].
func (db *DB) Tick(t *tick.Tick) error {
	db.mu.Lock()
	defer db.mu.Unlock()
	if db.failed != nil || db.closed {
		return db.failed
	}
	if err := db.removed(); err != nil {
		return db.fail(db.o.Path, err)
	}
	t = db.steadyTick(t)
	if err := db.saver.note(t); err != nil {
		return db.fail(db.o.Path, err)
	}
	if db.paused != nil && !db.resume() {
		return nil
	}
	t.Drops = db.withOwn(t.Drops)
	chains, err := ChainSum(t.AllChains())
	if err == nil {
		err = db.log.Tick(t, chains)
	}
	if err != nil {
		return db.fail(db.file.Name(), err)
	}
	if err := db.flush(); err != nil || db.paused != nil {
		return err
	}
	db.sync()
	err = db.saver.tick(t)
	if err == nil {
		db.saver.rows.Bound = db.o.MaxBytes
		err = db.saver.rows.Trim(t.Time)
	}
	if busy(err) && !t.Final { // another process's transaction: the next tick has the full state
		return nil
	}
	if err != nil {
		return db.fail(db.o.Path, err)
	}
	if !t.Final && db.full() {
		if err := db.rotate(); err != nil && !noFiles(err) { // out of files: keep this segment
			return db.fail(db.file.Name(), err)
		}
	}
	db.free(0) // the tick may have had more rows than expected
	db.measure()
	return nil
}

// sync syncs the log in the background.
func (db *DB) sync() {
	if !db.synced {
		return
	}
	db.synced = false
	file := db.file
	db.sealing.Go(func() {
		_ = file.Sync() // if it fails, a write fails too and reports that
		db.mu.Lock()
		db.synced = true
		db.mu.Unlock()
	})
}

func (db *DB) freeReserve() {
	if db.reserve == nil {
		return
	}
	_ = db.held.Unlink(reserveName)
	_ = db.reserve.Close()
	db.reserve = nil
}

// Close ends the recording and leaves a database that can be read without writing. It is
// idempotent. It returns only the errors of Close itself.
func (db *DB) Close() error {
	db.mu.Lock()
	defer db.mu.Unlock()
	if db.closed {
		return db.closing
	}
	var errs []error
	if db.failed == nil {
		end := segment.End{Time: db.o.Now(), State: "ended"}
		if db.paused != nil {
			end.State, end.Problem = "full", db.paused.Error()
			_ = errors.Join(db.log.End(end), db.log.Flush(), db.saver.end(&end)) // reported before
		} else {
			err := errors.Join(db.log.End(end), db.flush())
			if db.failed == nil {
				err = errors.Join(err, db.file.Sync(), db.saver.end(&end))
			}
			errs = append(errs, err)
		}
	}
	db.closed = true
	if db.stop != nil {
		db.stop()
	}
	db.freeReserve()
	db.leave()
	db.mu.Unlock() // sealing needs the lock
	db.sealing.Wait()
	db.mu.Lock()
	errs = append(errs, db.saver.close())
	_ = db.held.Settle()
	db.measure()
	db.closing = inWords(db.o.Path, errors.Join(append(errs, db.release())...))
	return db.closing
}

// release closes all files, and last releases the lock.
func (db *DB) release() error {
	if db.held == nil {
		return nil
	}
	var err error
	db.freeReserve()
	db.sealing.Wait()
	if db.file != nil {
		err = db.file.Close()
	}
	return errors.Join(err, db.held.close())
}
