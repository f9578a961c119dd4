package tapes

import (
	"reflect"
	"regexp"
	"strconv"

	"ingero/internal/store/segment"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

// stranger is the name of processes outside the lab on tapes, with a number for each name.
const stranger = "other"

// known matches the names of processes and threads that a tape may have: those of the lab, of the
// simulated stack and of the kernel.
var known = regexp.MustCompile(`^(` + stranger + `\d*||victim|worker|faults|hog|spawner|threads|writer|reader|memory|pager|stopper|tracer|peer` +
	`|rotate|gzip|chmod|chown|touch|find` + // started by spawner
	`|loop|train|infer|graph|sh|sleep|cat|taskset|nvidia-smi|python3?|python3\.\d+|incidents\.test|ingero|cuda[A-Za-z0-9-]*` +
	`|swapper/\d+|ksoftirqd/\d+|kworker/.*|migration/\d+|rcu.*|kswapd\d+|kcompactd\d+|khugepaged|jbd2/.*|kthreadd|kauditd|ext4-.*|xfs.*|dm.*|irq/.*|oom_reaper|khungtaskd|watchdog.*|kdamond.*|cpuhp/\d+)$`)

// named replaces each process name in a batch by the result of fn.
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

// namedInTick replaces each process name in a source's part of a tick by the result of fn.
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

// places are patterns of paths that identify the recording machine, with their replacements.
var places = []struct {
	is   *regexp.Regexp
	with string
}{
	{regexp.MustCompile(`^/[^/ ]+/[0-9a-f]{32}\b`), ""}, // cgroup of a sandbox
	{regexp.MustCompile(`/(root|home/[^/ ]+)/\.pyenv/versions/[^/ ]+`), "/usr"},
	{regexp.MustCompile(`/(root|work|home/[^/ ]+)/`), "/opt/"},
	{regexp.MustCompile(`/tmp/[^/ ]+/`), "/tmp/lab/"},
}

// placeless returns text without paths of the recording machine.
func placeless(text string) string {
	for _, p := range places {
		text = p.is.ReplaceAllString(text, p.with)
	}
	return text
}

// eachString replaces each string in v by the result of fn. v is a pointer, or a value reached from
// a pointer.
func eachString(v reflect.Value, fn func(string) string) {
	switch v.Kind() {
	case reflect.String:
		if v.CanSet() {
			v.SetString(fn(v.String()))
		}
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			eachString(v.Elem(), fn)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				eachString(v.Field(i), fn)
			}
		}
	case reflect.Slice, reflect.Array:
		if k := v.Type().Elem().Kind(); k < reflect.Array { // numbers
			return
		}
		for i := range v.Len() {
			eachString(v.Index(i), fn)
		}
	}
}

// scrubbed is a replay in which processes outside the lab have numbered names, and paths do not
// identify the recording machine.
type scrubbed struct {
	*segment.Replay
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
	eachString(reflect.ValueOf(b), placeless)
	return more, err
}

// Totals implements session.Source.
func (s scrubbed) Totals(t *tick.Tick) error {
	err := s.Replay.Totals(t)
	namedInTick(t, s.scrub)
	eachString(reflect.ValueOf(t), placeless)
	return err
}
