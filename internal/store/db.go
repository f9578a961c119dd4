package store

import (
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"ingero/internal/tick"
)

const (
	flushEvery = 250 * time.Millisecond
	reserve    = 256 << 10 // bytes kept free for an orderly end on a full disk
	logSuffix  = ".ilog"
)

// Options say where and how to record. Path is required.
type Options struct {
	Path    string
	Session Session
	// MaxBytes bounds all files of the database together, about; 0 is no bound.
	// Logs of older sessions go first, then calls of this one are no longer kept.
	MaxBytes int64
	Owner    *Owner // whom files are made for; nil: this process's user
	Now      func() time.Time
	// AfterFunc runs a function later, so that calls are written in time when no
	// more follow; nil is [time.AfterFunc].
	AfterFunc func(d time.Duration, f func()) (stop func() bool)
}

// DB records a session: it is a sink. Calls and waits are in the log's file at most 250 ms
// after they came, so that is what kill -9 loses; counts a second. Of a power
// failure it promises nothing but that what is on the disk can be read.
//
// A write that fails ends the recording: the call that failed, and all after it,
// return the same error; see [FullError]. What was written stays readable.
// Methods may be called from any goroutine.
type DB struct {
	o     Options
	dir   *os.File // of the logs
	lock  *os.File
	main  *os.File // the SQLite file, open so that its identity is known
	sql   *sql.DB
	file  *os.File // the log
	spare *os.File

	mu      sync.Mutex // guards what follows
	log     *logWriter
	saver   *saver
	flushed time.Time
	stop    func() bool // the timer of the next flush, nil when there is none
	failed  error
	capped  int64 // Unix nanoseconds, 0: all calls and waits are kept
	others  int64 // bytes of other sessions' logs
	closed  bool
	closing error

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
	db := &DB{o: o}
	if err := db.open(); err != nil {
		return nil, errors.Join(inWords(o.Path, err), db.release())
	}
	return db, nil
}

// newID makes a name that no other session has.
func newID(s *Session) string {
	var random [4]byte
	_, _ = rand.Read(random[:]) // never fails
	return SessionID(s.Node, s.Started, random)
}

// SessionID returns the ID of a session, in characters that are safe in a file's
// name. What is random tells sessions of a machine apart that began in the same second.
func SessionID(node string, started time.Time, random [4]byte) string {
	node = strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' {
			return r
		}
		return '-'
	}, node)
	if len(node) > 64 {
		node = node[:64]
	}
	return fmt.Sprintf("%s-%s-%x", node, started.UTC().Format("20060102T150405"), random)
}

// open makes or opens all files. What it opened is closed by release.
func (db *DB) open() error {
	if db.o.Path == "" {
		return errors.New("no path is given for the database")
	}
	path, err := filepath.Abs(db.o.Path)
	if err != nil {
		return err
	}
	p := places{root: os.Geteuid() == 0, owner: db.o.Owner}
	parent, err := p.dir(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer func() { _ = parent.Close() }()
	path = filepath.Join(parent.Name(), filepath.Base(path)) // links resolved
	db.o.Path = path
	if db.dir, err = p.dir(LogDir(path)); err != nil {
		return err
	}
	if db.lock, err = p.lock(db.dir, path); err != nil {
		return err
	}
	if db.main, err = p.open(parent, filepath.Base(path), 0); err != nil {
		return err
	}
	if db.sql, err = openSQL(path, db.sameFile); err != nil {
		return err
	}
	if err := db.makeRoom(p); err != nil {
		return err
	}
	name := db.o.Session.ID + logSuffix
	if db.file, err = p.open(db.dir, name, unix.O_EXCL|unix.O_APPEND); err != nil {
		return err
	}
	if db.log, err = newLogWriter(db.file, &db.o.Session); err != nil {
		return err
	}
	if db.saver, err = newSaver(db.sql, &db.o.Session, name); err != nil {
		return err
	}
	db.flushed = db.o.Now()
	db.others = db.otherLogs()
	db.measure()
	return nil
}

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
		return &UnsafeError{db.o.Path, "was replaced while it was being opened"}
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
	db.saver.add(b.Calls)
	if db.capped != 0 {
		b = &tick.Batch{Procs: b.Procs}
	}
	db.log.add(b)
	if !db.log.pending() {
		return nil
	}
	due := flushEvery - db.o.Now().Sub(db.flushed)
	if due <= 0 {
		return db.flush()
	}
	if db.stop == nil {
		db.stop = db.o.AfterFunc(due, db.late)
	}
	return nil
}

// late flushes what has waited long enough. The error is the next call's.
func (db *DB) late() {
	db.mu.Lock()
	defer db.mu.Unlock()
	db.stop = nil
	if db.failed == nil && !db.closed {
		_ = db.flush()
	}
}

func (db *DB) flush() error {
	if db.stop != nil {
		db.stop()
		db.stop = nil
	}
	db.flushed = db.o.Now()
	if err := db.log.flush(); err != nil {
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
	if err := db.log.tick(t); err != nil {
		return db.fail(db.file.Name(), err)
	}
	if err := db.flush(); err != nil {
		return err
	}
	db.prune(t.Time)
	err := db.saver.tick(t, db.log.size, db.capped)
	if busy(err) && !t.Final { // somebody else's transaction: the next tick says it all
		return nil
	}
	if err != nil {
		return db.fail(db.o.Path, err)
	}
	db.measure()
	return nil
}

// fail ends the recording and says why, here and in what was recorded.
func (db *DB) fail(path string, err error) error {
	db.failed = inWords(path, err)
	db.problem.Store(&db.failed)
	state := "failed"
	if errors.Is(db.failed, unix.ENOSPC) {
		state = "full"
		db.freeSpare()
	}
	db.log.drop()
	end := End{Time: db.o.Now(), State: state, Problem: db.failed.Error()}
	_ = errors.Join(db.log.end(end), db.log.flush()) // the same disk; the first error counts
	_ = db.saver.end(&end, db.log.size)
	return db.failed
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
		err := errors.Join(db.log.end(end), db.flush())
		if db.failed == nil {
			err = errors.Join(err, db.file.Sync())
			err = errors.Join(err, db.saver.end(&end, db.log.size))
		}
		errs = append(errs, err)
	}
	db.closed = true
	if db.stop != nil {
		db.stop()
	}
	db.freeSpare()
	errs = append(errs, db.saver.close())
	// Without its write-ahead log the file can be copied, and read from a disk
	// that is read-only. While somebody reads it, that has to wait.
	_, _ = db.sql.Exec(waitShort + "; PRAGMA journal_mode = delete")
	db.measure()
	db.closing = inWords(db.o.Path, errors.Join(append(errs, db.release())...))
	return db.closing
}

// release closes all files, the lock last.
func (db *DB) release() error {
	var errs []error
	if db.sql != nil {
		errs = append(errs, db.sql.Close())
	}
	if db.dir != nil {
		db.freeSpare()
	}
	for _, f := range []*os.File{db.file, db.main, db.lock, db.dir} {
		if f != nil {
			errs = append(errs, f.Close())
		}
	}
	return errors.Join(errs...)
}
