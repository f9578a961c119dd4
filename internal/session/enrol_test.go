package session

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"testing"
	"time"

	"ingero/internal/decode"
	"ingero/internal/probes"
	"ingero/internal/proc"
	"ingero/internal/python"
	"ingero/internal/redact"
	"ingero/internal/testkit"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

// Data that was read before a process's end does not revive it.
func TestOver(t *testing.T) {
	began := time.Unix(1000, 0)
	ended := began.Add(time.Second)
	end := func(start uint64) *process { return &process{start: start, Process: tick.Process{Ended: ended}} }
	read := func(start uint64, at time.Time) proc.Process {
		return proc.Process{PID: 7, StartTicks: start, Started: at}
	}
	for _, tt := range []struct {
		name  string
		known *process
		p     proc.Process
		want  bool
	}{
		{name: "not known", p: read(5, began)},
		{name: "lives", known: &process{start: 5}, p: read(5, began)},
		{name: "ended", known: end(5), p: read(5, began), want: true},
		{name: "another with its number", known: end(5), p: read(500, ended.Add(time.Second))},
		{name: "another, and the clock was set back", known: end(5), p: read(500, began.Add(-time.Hour))},
		{name: "the clock was set forward", known: end(5), p: read(5, ended.Add(time.Hour)), want: true},
		{name: "ended before it was read of", known: end(0), p: read(5, began), want: true},
		{name: "another, of one that was never read of", known: end(0), p: read(500, ended.Add(time.Second))},
	} {
		t.Run(tt.name, func(t *testing.T) {
			x := &targets{procs: map[uint32]*process{}}
			if tt.known != nil {
				x.procs[7] = tt.known
			}
			if got := x.hasEnded(&tt.p); got != tt.want {
				t.Errorf("over = %t, want %t", got, tt.want)
			}
		})
	}
}

func TestHarm(t *testing.T) {
	for _, tt := range []struct {
		name   string
		p      proc.Process
		kernel bool // kills at a return under a filter
		want   bool
	}{
		{name: "nothing special", kernel: true},
		{name: "a filter, on a kernel that minds", p: proc.Process{Seccomp: 2}, kernel: true, want: true},
		{name: "a filter, on one that does not", p: proc.Process{Seccomp: 2}},
		{name: "strict mode has no filter", p: proc.Process{Seccomp: 1}, kernel: true},
		{name: "a shadow stack", p: proc.Process{ShadowStack: true}, want: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if why := tt.p.ReturnHarm(tt.kernel); (why != "") != tt.want {
				t.Errorf("harm = %q, want a reason: %v", why, tt.want)
			}
		})
	}
}

// A child of a process without return probes has none either, as in the kernel.
func TestEntryOnlyChild(t *testing.T) {
	report := &reporter{log: slog.New(slog.DiscardHandler), notify: func(Notice) {}}
	const parent, child, none = 7, math.MaxInt32 - 1, math.MaxInt32 - 2 // above every PID
	for _, entryOnly := range []bool{false, true} {
		of := newTargets(decode.Clock{}, report, &LiveOptions{})
		of.admit(&proc.Process{PID: parent}, entryOnly, time.Time{})
		of.forked(&tick.ProcEvent{PID: parent, Peer: child})
		of.forked(&tick.ProcEvent{PID: none, Peer: none})
		if _, watched := of.returns(child); watched == entryOnly {
			t.Errorf("parent entry-only: %v; child has return probes: %v", entryOnly, watched)
		}
	}
}

// A process that begins to end while it is enrolled is not traced, whether or not its exit was read by
// then. Nor does it come back to life when it is looked at again.
func TestEndsWhileEnrolled(t *testing.T) {
	testkit.NeedBPF(t)
	pid := uint32(os.Getpid())
	root := t.TempDir()
	dir := filepath.Join(root, strconv.Itoa(int(pid)))
	thread := filepath.Join(dir, "task", strconv.Itoa(int(pid)))
	if err := os.MkdirAll(thread, 0o755); err != nil {
		t.Fatal(err)
	}
	const exiting = 4 // PF_EXITING
	flags := func(n int) {
		text := fmt.Sprintf("%d (x) R 1 1 1 0 -1 %d 0 0 0 0 0 0 0 0 20 0 1 0 5 0 0", pid, n)
		for _, in := range []string{dir, thread} {
			if err := os.WriteFile(filepath.Join(in, "stat"), []byte(text), 0o600); err != nil {
				t.Error(err)
			}
		}
	}
	for _, begins := range []string{"before", "after"} { // its end, relative to being known as traced
		t.Run(begins, func(t *testing.T) {
			tr, err := probes.Open(probes.Options{Rows: events.Catalog[:1]})
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := tr.Close(); err != nil {
					t.Error(err)
				}
			}()
			flags(0)
			if begins == "before" {
				flags(exiting)
			}
			report := &reporter{log: slog.New(slog.DiscardHandler), notify: func(n Notice) {
				if n.Kind == NoticeTracing {
					flags(exiting)
				}
			}}
			o := &LiveOptions{Select: proc.Selector{PIDs: []uint32{pid}}}
			of := newTargets(decode.Clock{}, report, o)
			e := newEnroller(o, tr, decode.Clock{}, report, of, newLibraries(decode.Clock{}, tr, nil, report, o))
			e.fs, e.enrolled = proc.FS{Root: root}, func(*proc.Process, time.Time) { t.Error("it was enrolled") }
			p := proc.Process{PID: pid, StartTicks: 5, ShadowStack: true}
			e.enrol(&p, nil)
			e.recheck(&p)
			if of.lives(pid) || tr.Traced(pid) {
				t.Errorf("it lives: %t, the kernel traces it: %t", of.lives(pid), tr.Traced(pid))
			}
		})
	}
}

// A program that maps several libraries at its start is read once.
func TestMappingsOfProcessAreTakenTogether(t *testing.T) {
	event := func(pid uint32, at int64, lib events.Library) proc.MapEvent {
		return proc.MapEvent{Time: at, PID: pid, Library: proc.Library{Lib: lib, Mapping: proc.Mapping{Key: proc.Key{Inode: uint64(lib)}}}}
	}
	fresh := []proc.MapEvent{event(7, 1, events.LibCudart), event(8, 2, events.LibCudart), event(7, 3, events.LibCuda), event(7, 5, events.LibCudart)}
	e := &enroller{}
	var got []libraryTimes
	for len(fresh) > 0 {
		var of libraryTimes
		of, fresh = e.takeProcess(fresh)
		got = append(got, of)
	}
	key := func(lib events.Library) libraryKey { return libraryKey{proc.Key{Inode: uint64(lib)}, lib} }
	want := []libraryTimes{
		{7, map[libraryKey]time.Time{key(events.LibCudart): time.Unix(0, 5), key(events.LibCuda): time.Unix(0, 3)}},
		{8, map[libraryKey]time.Time{key(events.LibCudart): time.Unix(0, 2)}},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// After lost map events, a traced child of an ended parent is read again; an ended process is not reported.
func TestOrphansAreReadAgain(t *testing.T) {
	const orphan, ended, gone = 20, 21, 22
	root := t.TempDir()
	dir := filepath.Join(root, strconv.Itoa(orphan))
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"status": "PPid:\t1\nUid:\t0\t0\t0\t0\nVmSize:\t1 kB\nThreads:\t1\n", "maps": "",
		"stat": "20 (worker) S 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 5 0 0"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	report := &reporter{log: slog.New(slog.DiscardHandler), notify: func(n Notice) {
		if n.Kind == NoticeFailed {
			t.Errorf("process %d: %v", n.PID, n.Err)
		}
	}}
	o := &LiveOptions{Select: proc.Selector{PIDs: []uint32{10}}}
	of := newTargets(decode.Clock{}, report, o)
	for _, pid := range []uint32{orphan, ended, gone} {
		of.admit(&proc.Process{PID: pid}, false, time.Time{})
	}
	of.ended(ended, time.Unix(1000, 0))
	e := newEnroller(o, nil, decode.Clock{}, report, of, newLibraries(decode.Clock{}, nil, nil, report, o))
	var got []uint32
	e.fs, e.enrolled = proc.FS{Root: root}, func(p *proc.Process, _ time.Time) { got = append(got, p.PID) }
	if err := e.catchUp(t.Context()); err != nil || !slices.Equal(got, []uint32{orphan}) {
		t.Errorf("processes %v are read again, %v, want %d", got, err, orphan)
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if err := e.catchUp(over); !errors.Is(err, context.Canceled) || len(got) != 1 {
		t.Errorf("processes %v are read again, %v, although the trace ends", got[1:], err)
	}
}

// A process whose exit was read while its libraries were attached is not searched for an interpreter.
func TestEndedProcessIsNotSearched(t *testing.T) {
	p := proc.Process{PID: math.MaxInt32 - 1} // above every PID
	for _, ends := range []bool{false, true} {
		o := LiveOptions{Log: slog.New(slog.DiscardHandler), Notify: func(Notice) {}}
		l := newLive(&o, nil, &Player{}, nil, decode.Clock{})
		searched := false
		x := newInterpreters(l.report, decode.Clock{})
		x.forget = l.resolve.holders.forget
		x.find = func(uint32) (*python.Process, error) {
			searched = true
			return nil, proc.ErrExited
		}
		l.resolve.pythons = x
		l.targets.admit(&p, false, time.Time{})
		if ends {
			l.targets.ended(p.PID, time.Unix(1000, 0))
		}
		l.enrol.announce(&p, time.Time{})
		if x.pass(time.Now()); searched == ends {
			t.Errorf("it has ended: %t, it was searched: %t", ends, searched)
		}
	}
}

// A traced process that return probes would harm by the time it maps a library loses them. Where
// probes cannot exclude a process, all processes lose theirs.
func TestEntryOnlyLater(t *testing.T) {
	testkit.NeedBPF(t)
	self, err := proc.FS{}.Process(uint32(os.Getpid()))
	if err != nil {
		t.Fatal(err)
	}
	for _, mode := range []probes.Mode{probes.ModeSession, probes.ModeMulti, probes.ModePerf} {
		for _, p := range []proc.Process{{}, {Seccomp: proc.SeccompFilter}, {ShadowStack: true}} {
			tr, err := probes.Open(probes.Options{Mode: mode, Rows: events.Catalog[:1]})
			if errors.Is(err, probes.ErrNotSupported) {
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			report := &reporter{log: slog.New(slog.DiscardHandler), notify: func(Notice) {}}
			of := newTargets(decode.Clock{}, report, &LiveOptions{})
			of.start(redact.Safe)
			e := newEnroller(&LiveOptions{}, tr, decode.Clock{}, report, of, newLibraries(decode.Clock{}, tr, nil, report, &LiveOptions{}))
			e.harm, e.enrolled = true, func(*proc.Process, time.Time) {}
			p.PID, p.StartTicks = self.PID, self.StartTicks
			e.enrol(&self, nil)
			e.enrol(&p, nil)
			harm := p.ReturnHarm(true) != ""
			if _, watched := of.returns(p.PID); watched == harm {
				t.Errorf("%s, %+v: it has return probes: %v", mode, p, watched)
			}
			if all := tr.EntryOnly(); all != (harm && mode != probes.ModeSession) {
				t.Errorf("%s, %+v: all processes have no return probes: %v", mode, p, all)
			}
			of.close()
			if err := tr.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}
