package store

import (
	"database/sql"
	"errors"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"ingero/internal/tick"
)

const (
	flushEvery = 200 * time.Millisecond // of the 250 that are promised: to write takes time, too
	writeFrom  = 256 << 10              // bytes of full frames that are not kept back: then a flush has little to write
	reserve    = 256 << 10              // bytes kept free for an orderly end on a full disk
	resumeRoom = 2 << 20                // bytes that must be free to go on: more than the end of a recording frees
)

// Options say where and how to record. Path is required.
type Options struct {
	Path    string
	Session Session
	// MaxBytes bounds all files of the database together; 0 is no bound. The oldest
	// segments go first, and rollups take at most a tenth.
	MaxBytes int64
	MaxAge   time.Duration // segments older than this go; 0 is no bound
	Owner    *Owner        // whom files are made for; nil: this process's user
	Now      func() time.Time
	// AfterFunc runs a function later, so that calls are written in time when no
	// more follow; nil is [time.AfterFunc].
	AfterFunc func(d time.Duration, f func()) (stop func() bool)
}

// DB records a session: it is a sink. Calls and waits are in the log's file at most 250 ms
// after they came, so that is what kill -9 loses; counts a second. Of a power
// failure it promises nothing but that what is on the disk can be read.
//
// While the disk is full nothing is kept, and Problem says so; the recording goes on
// at the first tick that finds room. Any other write that fails ends it: the call
// that failed, and all after it, return the same error. What was written stays
// readable. Methods may be called from any goroutine.
type DB struct {
	o     Options
	dir   *os.File // of the logs
	lock  *os.File
	main  *os.File // the SQLite file, open so that its identity is known
	sql   *sql.DB
	file  *os.File // the log
	spare *os.File

	started time.Time // when it was opened

	mu        sync.Mutex // guards what follows
	log       *logWriter
	seq       int // of the segment that is being written
	saver     *saver
	functions functionsKept
	stacks    stacksKept
	flushed   time.Time
	synced    bool        // no sync of the log is under way
	stop      func() bool // the timer of the next flush, nil when there is none
	failed    error
	paused    error  // why nothing is kept at the moment: a full disk
	unkept    uint64 // calls and waits that came meanwhile
	kept      []keptSegment
	closed    bool
	closing   error
	sealing   sync.WaitGroup
	sealer    sync.Mutex // one at a time
	inSeal    Segment    // the one that is being sealed

	size    atomic.Int64
	problem atomic.Pointer[error]
}

// Open starts a recording. It returns a [HeldError] when another process records
// to this database, an [UnsafeError] when root must not write there, and an
// error that wraps [ErrNotDatabase] when the file is something else. On error
// nothing stays open.
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

// steady is a time by the clock of the calls: that of the machine when the database
// was opened, and what has passed since. So an hour by which somebody sets the clock
// is in no tick, and makes nothing old.
func (db *DB) steady(t time.Time) time.Time { return db.started.Add(t.Sub(db.started)) }

// open makes or opens all files. What it opened is closed by release.
func (db *DB) open() error {
	if db.o.Path == "" {
		return errors.New("no path is given for the database")
	}
	p := db.places()
	if err := db.hold(p); err != nil {
		return err
	}
	if err := db.openMain(p); err != nil {
		return err
	}
	if err := db.makeRoom(p); err != nil {
		return err
	}
	if err := db.list(); err != nil {
		return err
	}
	if err := db.begin(0); err != nil {
		return err
	}
	var err error
	if db.saver, err = newSaver(db.sql, &db.o.Session); err != nil {
		return err
	}
	db.flushed, db.synced = db.o.Now(), true
	db.measure()
	db.sealLeft()
	return nil
}

func (db *DB) places() places { return places{root: os.Geteuid() == 0, owner: db.o.Owner} }

// sameFile makes sure that SQLite has opened the file that was looked at, and
// not another that was put in its place: then this process has it open twice.
func (db *DB) sameFile() error {
	want, err := db.main.Stat()
	if err != nil {
		return err
	}
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return err
	}
	n := 0
	for _, fd := range fds {
		if s, err := os.Stat("/proc/self/fd/" + fd.Name()); err == nil && os.SameFile(s, want) {
			n++
		}
	}
	if n < 2 {
		return &UnsafeError{Path: db.o.Path, Why: "was replaced while it was being opened"}
	}
	return nil
}

// makeRoom sets a little of the disk aside. Not every file system can.
func (db *DB) makeRoom(p places) (err error) {
	if db.spare, err = p.open(db.dir, spareName, 0); err != nil {
		return err
	}
	err = unix.Fallocate(int(db.spare.Fd()), 0, 0, reserve)
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EINTR) {
		return nil
	}
	return pathError("allocate", db.spare.Name(), err)
}

const spareName = "spare"

// Path returns the database's file, with symbolic links resolved.
func (db *DB) Path() string { return db.o.Path }

// Session returns what is recorded, with the ID that it got.
func (db *DB) Session() Session { return db.o.Session }

// Size returns the bytes of all files of the database, as of the last tick.
func (db *DB) Size() int64 { return db.size.Load() }

// Problem returns why nothing is recorded any more, nil while it is.
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
	db.functions.add(b.Functions)
	db.saver.addFunctions(b.Functions)
	db.stacks.add(b.Stacks)
	db.saver.addStacks(b.Stacks)
	if db.paused != nil {
		db.unkept += uint64(len(b.Calls) + len(b.Waits))
		return nil
	}
	db.saver.add(b.Calls)
	db.log.add(b)
	if !db.log.pending() {
		return nil
	}
	due := flushEvery - max(db.o.Now().Sub(db.flushed), 0)
	if due <= 0 {
		return db.flush()
	}
	if db.stop == nil {
		db.stop = db.o.AfterFunc(due, db.late)
	}
	if len(db.log.buf) >= writeFrom {
		return db.write()
	}
	return nil
}

// late flushes what has waited long enough. The error is the next call's.
func (db *DB) late() {
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
	db.log.cut()
	return db.write()
}

// write writes the frames that are full, and no others.
func (db *DB) write() error {
	db.prune(int64(len(db.log.buf)))
	if err := db.log.write(); err != nil {
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
	if db.paused != nil && !db.resume() {
		return nil
	}
	t = db.asKept(t)
	if err := db.log.tick(t); err != nil {
		return db.fail(db.file.Name(), err)
	}
	if err := db.flush(); err != nil || db.paused != nil {
		return err
	}
	db.sync()
	err := db.saver.tick(t)
	if err == nil {
		err = db.saver.trim(t.Time, db.o.MaxBytes)
	}
	if busy(err) && !t.Final { // somebody else's transaction: the next tick says it all
		return nil
	}
	if err != nil {
		return db.fail(db.o.Path, err)
	}
	if !t.Final && (db.log.size >= db.segmentBytes() || db.log.full()) {
		if err := db.rotate(); err != nil && !noFiles(err) { // this segment will do until there are some
			return db.fail(db.file.Name(), err)
		}
	}
	db.free(0) // it may have had more rows than were expected
	db.measure()
	return nil
}

// sync has what is written reach the disk, at leisure.
func (db *DB) sync() {
	if !db.synced {
		return
	}
	db.synced = false
	file := db.file
	db.sealing.Go(func() {
		_ = file.Sync() // where this fails a write will, and says so
		db.mu.Lock()
		db.synced = true
		db.mu.Unlock()
	})
}

func (db *DB) freeSpare() {
	if db.spare == nil {
		return
	}
	_ = unix.Unlinkat(int(db.dir.Fd()), spareName, 0)
	_ = db.spare.Close()
	db.spare = nil
}

// Close ends the recording and leaves a database that needs nothing but to be
// read. It is idempotent. It returns what went wrong in Close alone.
func (db *DB) Close() error {
	db.mu.Lock()
	defer db.mu.Unlock()
	if db.closed {
		return db.closing
	}
	var errs []error
	if db.failed == nil {
		end := End{Time: db.o.Now(), State: "ended"}
		if db.paused != nil {
			end.State, end.Problem = "full", db.paused.Error()
			_ = errors.Join(db.log.end(end), db.log.flush(), db.saver.end(&end)) // it was said
		} else {
			err := errors.Join(db.log.end(end), db.flush())
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
	db.freeSpare()
	db.leave()
	db.mu.Unlock() // what is being sealed needs it
	db.sealing.Wait()
	db.mu.Lock()
	errs = append(errs, db.saver.close())
	// Without its write-ahead log the file can be copied, and read from a disk
	// that is read-only. While somebody reads it, that has to wait.
	_, _ = db.sql.Exec(waitShort + "; PRAGMA journal_mode = delete")
	db.measure()
	db.closing = inWords(db.o.Path, errors.Join(append(errs, db.release())...))
	return db.closing
}

// release closes all files and lets go of the lock last.
func (db *DB) release() error {
	var errs []error
	if db.sql != nil {
		errs = append(errs, db.sql.Close())
	}
	if db.dir != nil {
		db.freeSpare()
	}
	db.sealing.Wait()
	if db.lock != nil {
		errs = append(errs, unlock(db.lock))
	}
	for _, f := range []*os.File{db.file, db.main, db.lock, db.dir} {
		if f != nil {
			errs = append(errs, f.Close())
		}
	}
	return errors.Join(errs...)
}
