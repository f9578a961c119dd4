package dashboard

import (
	"os"
	"sync"
	"time"

	"ingero/internal/query"
)

// keepOpen is how long a database stays open that nobody asks about: who records leaves
// it without a write-ahead log once nobody reads it.
const keepOpen = 5 * time.Second

// opener keeps the database open between questions that follow each other.
type opener struct {
	path func() string
	now  func() time.Time

	mu    sync.Mutex
	db    *shared // nil: none is open
	timer *time.Timer
	all   sync.WaitGroup // that are open
}

// shared is a reader and how many use it.
type shared struct {
	*query.Reader
	path  string
	file  os.FileInfo
	users int
	stale bool // it is closed when nobody uses it
}

// reader returns the database as it is at its path now, and what to call when done with.
func (o *opener) reader() (*query.Reader, func(), error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	path := o.path()
	if s := o.db; s != nil {
		if file, err := os.Stat(path); err != nil || s.path != path || !os.SameFile(file, s.file) {
			o.drop()
		}
	}
	if o.db == nil {
		r, err := query.Open(path)
		if err != nil {
			return nil, nil, err
		}
		file, _ := os.Stat(path) // of one that has gone since, nil is no other's
		o.db = &shared{Reader: r, path: path, file: file}
		o.all.Add(1)
	}
	if o.timer != nil {
		o.timer.Stop()
	}
	s := o.db
	s.users++
	return s.Reader, func() { o.release(s) }, nil
}

func (o *opener) release(s *shared) {
	o.mu.Lock()
	defer o.mu.Unlock()
	s.users--
	switch {
	case s.users > 0:
	case s.stale:
		o.close(s)
	default:
		o.timer = time.AfterFunc(keepOpen, o.idle)
	}
}

// idle closes a database that nobody has asked about for a while.
func (o *opener) idle() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.db != nil && o.db.users == 0 {
		o.drop()
	}
}

// drop forgets the reader, and closes it once nobody uses it.
func (o *opener) drop() {
	s := o.db
	o.db, s.stale = nil, true
	if s.users == 0 {
		o.close(s)
	}
}

func (o *opener) close(s *shared) {
	_ = s.Close() // it was read only
	o.all.Done()
}

// end closes the database, once all questions have been answered.
func (o *opener) end() {
	o.mu.Lock()
	if o.timer != nil {
		o.timer.Stop()
	}
	if o.db != nil {
		o.drop()
	}
	o.mu.Unlock()
	o.all.Wait()
}
