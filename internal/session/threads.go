package session

import (
	"cmp"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"

	"ingero/internal/decode"
	"ingero/internal/probes"
	"ingero/internal/tick"
)

// names keeps the names of threads, so that each is read once. A thread that
// renames itself keeps its first name until it ends.
type names map[uint32]string

// threads fills the accounts of the threads as of now, those included that have
// ended since the last tick.
func (l *Live) threads(t *tick.Tick) error {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		return fmt.Errorf("read the clock: %w", err)
	}
	t.Threads = append(t.Threads, l.gone...)
	for i := range l.gone {
		delete(l.names, l.gone[i].TID)
	}
	l.gone = l.gone[:0]
	l.findGPUs()
	err := l.tracer.Threads(func(tid uint32, s *probes.ThreadState) {
		x := decode.Thread(tid, s, uint64(now.Nano()), l.clock)
		name, known := l.names[tid]
		if !known {
			name = l.fs.ThreadName(x.PID, tid)
			l.names[tid] = name
		}
		x.Comm = name
		l.gpus.thread(&x)
		t.Threads = append(t.Threads, x)
	})
	slices.SortFunc(t.Threads, func(a, b tick.Thread) int {
		return cmp.Or(cmp.Compare(a.PID, b.PID), cmp.Compare(a.TID, b.TID), cmp.Compare(a.Since, b.Since))
	})
	return err
}

// tracing tells whether a process is among those that are traced.
func (l *Live) tracing(pid uint32) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.procs[pid] != nil
}
