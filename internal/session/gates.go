package session

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"syscall"
	"time"

	"ingero/internal/tick"
)

// gates resumes processes that the kernel stopped when they mapped a CUDA library, once their
// probes are attached. add is safe for concurrent use.
type gates struct {
	log   *slog.Logger
	enrol func(pid uint32) error // attaches to what the process maps
	wake  chan struct{}          // signals a stopped process
	work  sync.WaitGroup

	mu      sync.Mutex
	stopped []tick.ProcEvent
}

func newGates(log *slog.Logger, enrol func(pid uint32) error) *gates {
	return &gates{log: log, enrol: enrol, wake: make(chan struct{}, 1)}
}

// start resumes stopped processes until ctx ends.
func (g *gates) start(ctx context.Context) {
	g.work.Go(func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-g.wake:
			}
			g.each(func(e tick.ProcEvent) { g.open(e, ctx.Err() == nil) })
		}
	})
}

// close resumes the processes that are still stopped, once start's ctx has ended.
func (g *gates) close() {
	g.work.Wait()
	g.each(func(e tick.ProcEvent) { g.open(e, false) })
}

// add queues a process that stops at its gate.
func (g *gates) add(e tick.ProcEvent) {
	g.mu.Lock()
	g.stopped = append(g.stopped, e)
	g.mu.Unlock()
	select {
	case g.wake <- struct{}{}:
	default:
	}
}

// each passes the stopped processes to open, one by one.
func (g *gates) each(open func(tick.ProcEvent)) {
	for {
		g.mu.Lock()
		if len(g.stopped) == 0 {
			g.mu.Unlock()
			return
		}
		e := g.stopped[0]
		g.stopped = g.stopped[1:]
		g.mu.Unlock()
		open(e)
	}
}

// open attaches to what a stopped process has just mapped, if wanted, and resumes the process.
func (g *gates) open(e tick.ProcEvent, wanted bool) {
	defer func() { _ = syscall.Kill(int(e.PID), syscall.SIGCONT) }()
	if err := waitStopped(e.PID, e.TID); err != nil {
		g.log.Debug("gate", "pid", e.PID, "error", err)
		return
	}
	if !wanted {
		return
	}
	if err := g.enrol(e.PID); err != nil {
		g.log.Debug("gate", "pid", e.PID, "error", err)
	}
}

// waitStopped waits until a thread of a stopped process has stopped, which takes the rest of one
// system call.
func waitStopped(pid, tid uint32) error {
	const patience = 2 * time.Second
	path := fmt.Sprintf("/proc/%d/task/%d/stat", pid, tid)
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(50 * time.Microsecond) {
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if i := bytes.LastIndexByte(b, ')'); i >= 0 && i+2 < len(b) && b[i+2] == 'T' {
			return nil
		}
	}
	return fmt.Errorf("thread %d has not stopped", tid)
}
