package clickhouse

import (
	"context"
	"errors"
	"sync"
	"time"

	"ingero/internal/query"
)

// FollowOptions select the recording to follow.
type FollowOptions struct {
	Path string // of the database
	// Mine identifies the session being recorded among earlier ones.
	Mine  func(*query.Session) bool
	Every time.Duration // between two passes, longer if passes are slow; 0: 2 s
	Grace time.Duration // how long Close waits for the rest; 0: 15 s
}

// Follower copies a session during its recording. It reads what was written, so the trace never
// waits for it, and anything the cluster cannot accept now stays in the recording.
type Follower struct {
	o      FollowOptions
	c      *Cluster
	end    chan struct{} // closed: the recording is complete
	cancel context.CancelFunc
	done   chan struct{}
	closed sync.Once

	mu    sync.Mutex
	state FollowState
}

// FollowState is the progress of copying.
type FollowState struct {
	Result
	Complete bool   // everything recorded is copied
	Problem  string // of the last pass; "": none
}

// Follow starts copying. Close ends it.
func Follow(c *Cluster, o FollowOptions) *Follower {
	if o.Every == 0 {
		o.Every = 2 * time.Second
	}
	if o.Grace == 0 {
		o.Grace = 15 * time.Second
	}
	c.o.GiveUp = -1 // the recording keeps the rows
	ctx, cancel := context.WithCancel(context.Background())
	f := &Follower{o: o, c: c, end: make(chan struct{}), cancel: cancel, done: make(chan struct{})}
	go f.run(ctx)
	return f
}

// Pauses between two passes. The shortest is [FollowOptions.Every].
const (
	maxRefused = 5 * time.Minute // after a refused pass
	maxSlow    = time.Minute     // after a slow pass
	// slower is the length of a pause in passes. Many machines send to one cluster. If it is slow, each
	// sends larger blocks less often, and so the number of blocks is what the cluster can take.
	slower = 20
)

// pause returns the pause after a pass that took some time.
func (o *FollowOptions) pause(took time.Duration, err error) time.Duration {
	pause := min(slower*took, maxSlow)
	if _, refused := errors.AsType[*Refused](err); refused {
		pause = min(30*o.Every, maxRefused)
	}
	return max(o.Every, pause)
}

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
		began := time.Now()
		var err error
		x, err = f.pass(ctx, x, res, last)
		f.note(res, err, last)
		pause = f.o.pause(time.Since(began), err)
	}
}

// pass copies what is new. It opens the database each time: the database may not have existed
// before, and a reader must not stay open.
func (f *Follower) pass(ctx context.Context, x *copier, res *Result, last bool) (_ *copier, err error) {
	r, err := query.Open(ctx, f.o.Path)
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
			return nil, nil // not started
		}
	}
	x.r = r
	return x, x.pass(ctx, last)
}

func (f *Follower) note(res *Result, err error, last bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.state = FollowState{Result: *res, Complete: last && err == nil}
	if err != nil {
		f.state.Problem = err.Error()
	}
}

// State returns the progress as of the last pass.
func (f *Follower) State() FollowState {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.state
	if p := f.c.Problem(); p != "" { // a request may be in progress
		s.Problem = p
	}
	return s
}

// Close copies the rest, after the recording has ended, for at most Grace.
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
