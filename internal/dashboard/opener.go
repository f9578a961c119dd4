package dashboard

import (
	"context"
	"os"
	"sync"
	"time"

	"ingero/internal/query"
)

// keepOpen is how long an unused database stays open: a recorder can remove its write-ahead log
// only when no reader is left.
const keepOpen = 5 * time.Second

// opener keeps the database open between consecutive questions.
type opener struct {
	path func() string
	life context.Context    // of the server: its end ends a copy
	stop context.CancelFunc // ends life

	mu    sync.Mutex
	db    *shared // nil: none
	timer *time.Timer
	all   sync.WaitGroup // open readers
}

// shared is a reader with its number of users.
type shared struct {
	*query.Reader
	path  string
	file  os.FileInfo
	users int
	stale bool // close it after the last use
}

func newOpener(path func() string) *opener {
	o := &opener{path: path}
	o.life, o.stop = context.WithCancel(context.Background())
	return o
}

// reader returns the database now at the path, and a function to call after use.
func (o *opener) reader() (*query.Reader, func(), error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	path := o.path()
	if s := o.db; s != nil {
		if file, err := os.Stat(path); err != nil || s.path != path || !os.SameFile(file, s.file) || s.Stale() {
			o.drop()
		}
	}
	if o.db == nil {
		// A copy also serves later requests, so the end of this one must not end it.
		r, err := query.Open(o.life, path)
		if err != nil {
			return nil, nil, err
		}
		file, _ := os.Stat(path) // nil if the file is gone, which matches no other
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

// idle closes a database after a time without questions.
func (o *opener) idle() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.db != nil && o.db.users == 0 {
		o.drop()
	}
}

// drop forgets the reader, and closes it after its last use.
func (o *opener) drop() {
	s := o.db
	o.db, s.stale = nil, true
	if s.users == 0 {
		o.close(s)
	}
}

func (o *opener) close(s *shared) {
	_ = s.Close() // read-only
	o.all.Done()
}

// end closes the database after all questions have been answered.
func (o *opener) end() {
	o.stop()
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
