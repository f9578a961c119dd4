package session

import (
	"slices"

	"ingero/internal/decode"
	"ingero/internal/probes"
	"ingero/internal/tape"
	"ingero/internal/tick"
)

// names keeps the names of threads, so that each is read once. A thread that
// renames itself keeps its first name until it ends.
type names map[nameKey]string

// nameKey is a thread: numbers are used again.
type nameKey struct {
	tid   uint32
	since int64
}

// threads fills the accounts of the threads, those included that have
// ended since the last tick.
func (l *Live) threads(t *tick.Tick) error {
	t.Threads = append(t.Threads, l.gone...)
	l.gone = l.gone[:0]
	if len(l.names) > 0 || len(l.accounts) > 0 {
		l.findGPUs()
	}
	known := names{}
	err := l.kernel.Threads(func(tid uint32, s *probes.ThreadState, now uint64) {
		x := decode.Thread(tid, s, now, l.clock)
		k := nameKey{tid, x.Since}
		name, ok := l.names[k]
		if !ok {
			ask(l.raw, tape.Name, &name, func() { name = l.fs.ThreadName(x.PID, tid) })
		}
		known[k] = name
		x.Comm = name
		l.gpus.thread(&x)
		t.Threads = append(t.Threads, x)
	})
	l.names = known
	slices.SortFunc(t.Threads, tick.ByThread)
	return err
}

// tracing tells whether a process is among those that are traced.
func (l *Live) tracing(pid uint32) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.procs[pid] != nil
}
