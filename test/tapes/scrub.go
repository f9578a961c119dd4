package tapes

import (
	"regexp"
	"strconv"

	"ingero/internal/store"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

// stranger is what tapes call processes that are not of the lab, with a number for each name.
const stranger = "other"

// known matches the names of processes and threads that a tape may name: those of the lab,
// of the simulated stack and of the kernel.
var known = regexp.MustCompile(`^(` + stranger + `\d*||victim|worker|faults|hog|spawner|threads|writer|reader|memory|pager|stopper|tracer|peer` +
	`|rotate|gzip|chmod|chown|touch|find` + // what spawner starts
	`|loop|train|infer|graph|sh|sleep|cat|taskset|nvidia-smi|python3?|python3\.\d+|incidents\.test|ingero|cuda[A-Za-z0-9-]*` +
	`|swapper/\d+|ksoftirqd/\d+|kworker/.*|migration/\d+|rcu.*|kswapd\d+|kcompactd\d+|khugepaged|jbd2/.*|kthreadd|kauditd|ext4-.*|xfs.*|dm.*|irq/.*|oom_reaper|khungtaskd|watchdog.*|kdamond.*|cpuhp/\d+)$`)

// named calls fn for each name of a process in a batch, and writes what it returns there.
func named(b *tick.Batch, fn func(string) string) {
	for i := range b.Waits {
		who := &b.Waits[i].Who
		who.Name = events.NameOf(fn(who.Name.String()))
	}
	for i := range b.Procs {
		b.Procs[i].Comm = fn(b.Procs[i].Comm)
	}
	for i := range b.Ended {
		b.Ended[i].Comm = fn(b.Ended[i].Comm)
	}
}

// namedInTick does the same for what a source tells of a tick.
func namedInTick(t *tick.Tick, fn func(string) string) {
	for i := range t.HostSums {
		t.HostSums[i].Comm = fn(t.HostSums[i].Comm)
	}
	for i := range t.Threads {
		t.Threads[i].Comm = fn(t.Threads[i].Comm)
	}
	for _, all := range [][]tick.Process{t.Processes, t.Others} {
		for i := range all {
			p := &all[i]
			name := fn(p.Comm)
			if name != p.Comm {
				*p = tick.Process{PID: p.PID, PPID: p.PPID, NSPID: p.NSPID, Started: p.Started, Ended: p.Ended}
			}
			p.Comm = name
		}
	}
}

// scrubbed is a replay in which processes that are not of the lab have numbers for names.
type scrubbed struct {
	*store.Replay
	names map[string]string
}

func (s scrubbed) scrub(name string) string {
	if known.MatchString(name) {
		return name
	}
	if s.names[name] == "" {
		s.names[name] = stranger + strconv.Itoa(len(s.names)+1)
	}
	return s.names[name]
}

// Poll implements session.Source.
func (s scrubbed) Poll(b *tick.Batch) (more bool, err error) {
	more, err = s.Replay.Poll(b)
	named(b, s.scrub)
	return more, err
}

// Totals implements session.Source.
func (s scrubbed) Totals(t *tick.Tick) error {
	err := s.Replay.Totals(t)
	namedInTick(t, s.scrub)
	return err
}
