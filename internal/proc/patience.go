package proc

import (
	"errors"
	"fmt"
	"sync"
	"time"
)

// ErrStuck means that a process cannot be read now. The kernel locks its address space for a read of
// maps. A thread that is stuck in a driver may hold that lock for good, or keep it from others.
var ErrStuck = errors.New("its address space stays locked, as it does when a thread is stuck in a driver")

// stuck has the processes for which a read still waits. It keeps a thread, so there is no other read
// of them.
var stuck sync.Map

// readEach reads processes one after the other, and passes take the results in the same order. If a
// read takes longer than patience, its result is ErrStuck: it keeps its goroutine, and another one
// reads the remaining processes. So read may run when readEach has returned, but take may not.
func readEach[T any](patience time.Duration, pids []uint32, read func(pid uint32) (T, error), take func(pid uint32, v T, err error)) {
	r := reads[T]{pids: pids, read: read, take: take, done: make(chan struct{})}
	go r.run(0)
	late := time.NewTimer(patience)
	defer late.Stop()
	for {
		select {
		case <-r.done:
			return
		case now := <-late.C:
			late.Reset(r.check(now, patience))
		}
	}
}

// within is readEach for one process.
func within[T any](f FS, pid uint32, read func(d pidDir) (T, error)) (v T, err error) {
	readEach(f.patience(), []uint32{pid}, func(uint32) (v T, err error) {
		d, err := f.openPID(pid)
		if err != nil {
			return v, err
		}
		defer d.close()
		return read(d)
	}, func(_ uint32, got T, e error) { v, err = got, e })
	return v, err
}

// reads is the state of a readEach.
type reads[T any] struct {
	pids []uint32
	read func(pid uint32) (T, error)
	take func(pid uint32, v T, err error)
	done chan struct{} // closed when all have been taken

	mu    sync.Mutex
	at    int       // index of the process that is being read
	since time.Time // when that read began; zero: it has not
	lost  int       // goroutines given up
}

// run reads the remaining processes, until it is given up. lost is the number given up before it.
func (r *reads[T]) run(lost int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for r.at < len(r.pids) {
		pid := r.pids[r.at]
		if _, is := stuck.Load(pid); is {
			r.skip()
			continue
		}
		r.since = time.Now()
		r.mu.Unlock()
		v, err := r.read(pid)
		r.mu.Lock()
		if r.lost != lost {
			stuck.Delete(pid)
			return
		}
		r.take(pid, v, err)
		r.at++
	}
	close(r.done)
}

// skip passes on that the current process is stuck. mu is held.
func (r *reads[T]) skip() {
	var none T
	pid := r.pids[r.at]
	r.take(pid, none, fmt.Errorf("read pid %d: %w", pid, ErrStuck))
	r.at++
}

// check gives up a read that has taken too long. It returns when to check again.
func (r *reads[T]) check(now time.Time, patience time.Duration) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.at == len(r.pids) || r.since.IsZero() {
		return patience
	}
	if left := patience - now.Sub(r.since); left > 0 {
		return left
	}
	stuck.Store(r.pids[r.at], nil)
	r.skip()
	r.since, r.lost = time.Time{}, r.lost+1
	go r.run(r.lost)
	return patience
}
