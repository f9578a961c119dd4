package clickhouse

import (
	"context"
	"errors"
	"sync"
	"time"

	"ingero/internal/query"
)

// FollowOptions says which recording is followed.
type FollowOptions struct {
	Path string // of the database
	// Mine tells the session that is being recorded from those before it.
	Mine  func(*query.Session) bool
	Every time.Duration // between two passes; 0: 2 s
	Grace time.Duration // that Close waits for what is left; 0: 15 s
}

// Follower copies a session while it is recorded. It reads what was written, so the trace
// never waits for it, and what a cluster cannot take now stays in the recording.
type Follower struct {
	o      FollowOptions
	c      *Cluster
	end    chan struct{} // closed: the recording is whole
	cancel context.CancelFunc
	done   chan struct{}
	closed sync.Once

	mu    sync.Mutex
	state FollowState
}

// FollowState is how copying goes.
type FollowState struct {
	Result
	Whole   bool   // all that was recorded is there
	Problem string // of the last pass, "" when it went well
}

// Follow starts to copy. It ends with Close.
func Follow(c *Cluster, o FollowOptions) *Follower {
	if o.Every == 0 {
		o.Every = 2 * time.Second
	}
	if o.Grace == 0 {
		o.Grace = 15 * time.Second
	}
	c.o.GiveUp = -1 // the recording has it
	ctx, cancel := context.WithCancel(context.Background())
	f := &Follower{o: o, c: c, end: make(chan struct{}), cancel: cancel, done: make(chan struct{})}
	go f.run(ctx)
	return f
}

// maxPause is how long to wait after a pass that was refused.
const maxPause = 5 * time.Minute

func (f *Follower) run(ctx context.Context) {
	defer close(f.done)
	var x *copier
	res := &Result{}
	pause := f.o.Every
	for last := false; !last; {
		t := time.NewTimer(pause)
		select {
		case <-t.C:
		case <-f.end:
			t.Stop()
			last = true
		}
		var err error
		x, err = f.pass(ctx, x, res, last)
		f.note(res, err, last)
		var no *Refused
		if pause = f.o.Every; errors.As(err, &no) {
			pause = min(30*f.o.Every, maxPause)
		}
	}
}

// pass copies what has come. The database is opened anew: it may not have been there yet,
// and what is read of it does not stay open.
func (f *Follower) pass(ctx context.Context, x *copier, res *Result, last bool) (_ *copier, err error) {
	r, err := query.Open(f.o.Path)
	if err != nil {
		return x, err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	if x == nil {
		sessions, err := r.Sessions(ctx)
		if err != nil {
			return nil, err
		}
		for i := range sessions {
			if f.o.Mine(&sessions[i]) {
				x = newCopier(f.c, r, query.Filter{}, &sessions[i], res, nil)
				x.live = true
				break
			}
		}
		if x == nil {
			return nil, nil // it has not begun
		}
	}
	x.r = r
	return x, x.pass(ctx, last)
}

func (f *Follower) note(res *Result, err error, last bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.state = FollowState{Result: *res, Whole: last && err == nil}
	if err != nil {
		f.state.Problem = err.Error()
	}
}

// State returns how copying goes, as of the last pass.
func (f *Follower) State() FollowState {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.state
	if p := f.c.Problem(); p != "" { // it may be trying
		s.Problem = p
	}
	return s
}

// Close copies what is left, once the recording has ended, for as long as Grace.
func (f *Follower) Close() error {
	f.closed.Do(func() {
		close(f.end)
		t := time.NewTimer(f.o.Grace)
		defer t.Stop()
		select {
		case <-f.done:
		case <-t.C:
		}
		f.cancel()
		<-f.done
		f.c.Close()
	})
	return nil
}
