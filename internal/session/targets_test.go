package session

import (
	"fmt"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"testing"
	"time"

	"ingero/internal/decode"
	"ingero/internal/proc"
	"ingero/internal/testkit"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

// PIDs above those of every process.
const (
	shellPID = math.MaxInt32 - iota
	helperPID
	programPID
	sleepPID
)

// launcher plays the events of a named process and its children at given seconds.
type launcher struct{ *targets }

func second(at float64) int64 { return time.Unix(1e9, 0).UnixNano() + int64(at*1e9) }

func (l launcher) fork(at float64, parent, child uint32) {
	l.forked(&tick.ProcEvent{Time: second(at), PID: parent, Peer: child})
}

func (l launcher) exec(at float64, pid uint32) {
	l.execed(&tick.ProcEvent{Time: second(at), PID: pid})
}

func (l launcher) useCUDA(pid uint32) {
	l.await(&proc.Process{PID: pid, Libraries: []proc.Library{{Lib: events.LibCuda}}})
}

func (l launcher) end(pid uint32) { l.ended(pid, time.Unix(1e9, 0)) }

// help runs a helper with CUDA in the first second, such as nvidia-smi.
func (l launcher) help() {
	l.fork(0, shellPID, helperPID)
	l.exec(0, helperPID)
	l.useCUDA(helperPID)
	l.end(helperPID)
}

// A trace of named processes waits for children that may be about to use CUDA, and for no others.
func TestTraceWaitsForYoungChildren(t *testing.T) {
	for _, tt := range []struct {
		name  string
		play  func(l launcher)
		until float64 // when the trace is over; negative: not before the program ends
	}{
		{"no child", launcher.help, 0},
		{"a helper used CUDA, and the program is young", func(l launcher) {
			l.help()
			l.fork(1, shellPID, programPID)
		}, 31},
		{"its exec makes it young again", func(l launcher) {
			l.help()
			l.fork(1, shellPID, programPID)
			l.exec(20, programPID)
		}, 50},
		{"the program uses CUDA", func(l launcher) {
			l.help()
			l.fork(1, shellPID, programPID)
			l.useCUDA(programPID)
		}, -1},
		{"no process used CUDA", func(l launcher) { l.fork(1, shellPID, programPID) }, -1},
		{"one that ran before executes another program", func(l launcher) {
			l.admit(&proc.Process{PID: programPID}, false, time.Unix(1, 0))
			l.help()
			l.exec(40, programPID)
		}, 70},
		{"one that ran before", func(l launcher) {
			l.admit(&proc.Process{PID: programPID}, false, time.Unix(1, 0))
			l.help()
		}, 0},
		{"a program with CUDA executes one without", func(l launcher) {
			l.fork(1, shellPID, programPID)
			l.useCUDA(programPID)
			l.exec(40, programPID)
		}, 70},
		{"a loop that starts a program every few seconds", func(l launcher) {
			l.help()
			l.fork(1, shellPID, programPID)
			l.fork(40, programPID, sleepPID)
			l.exec(40, sleepPID)
		}, 31},
	} {
		t.Run(tt.name, func(t *testing.T) {
			report := &reporter{log: slog.New(slog.DiscardHandler), notify: func(Notice) {}}
			l := launcher{newTargets(decode.Clock{}, report, &LiveOptions{Select: proc.Selector{PIDs: []uint32{shellPID}}})}
			l.admit(&proc.Process{PID: shellPID}, false, time.Unix(1, 0))
			tt.play(l)
			if l.over(second(1e6)) {
				t.Error("it is over while the launcher lives")
			}
			l.end(shellPID)
			last := tt.until
			if last < 0 {
				last = 1e6
			}
			if l.over(second(last-0.001)) != (last == 0) {
				t.Errorf("just before second %v, over = %t", last, last != 0)
			}
			if tt.until < 0 {
				l.end(programPID)
			}
			if !l.over(second(last)) {
				t.Errorf("it is not over at second %v", last)
			}
		})
	}
}

// A victim is reported with its cgroup, and whether a limit was reached. Mounts are read at the start.
func TestVictims(t *testing.T) {
	for oom, want := range map[int]string{0: "/job (no limit reached)", 1: "/job"} {
		x := newTargets(decode.Clock{}, &reporter{log: slog.New(slog.DiscardHandler), notify: func(Notice) {}}, &LiveOptions{})
		root := testkit.Tree(t, map[string]string{"proc/self/mountinfo": "23 1 0:7 / /sys/fs/cgroup rw - cgroup2 none rw\n",
			"sys/fs/cgroup/job/memory.events.local": fmt.Sprintf("oom %d\n", oom)})
		x.limits.Root = root
		x.start("")
		t.Cleanup(x.close)
		if err := os.Remove(filepath.Join(root, "proc/self/mountinfo")); err != nil {
			t.Fatal(err)
		}
		x.admit(&proc.Process{PID: 7, Cgroup: "/job"}, false, time.Time{})
		x.killed(7)
		if got := x.cgroup(7); got != want {
			t.Errorf("limits that ran out: %d; the victim is in %s, want %s", oom, got, want)
		}
	}
}

// The trace of a process begins when it maps a library that has had its probes since another process mapped it.
func TestMappedAfterAnotherProcess(t *testing.T) {
	for _, gated := range []uint32{0, shellPID} {
		x := newTargets(decode.Clock{}, &reporter{log: slog.New(slog.DiscardHandler), notify: func(Notice) {}}, &LiveOptions{Gated: gated})
		x.admit(&proc.Process{PID: programPID}, false, time.Time{})
		probed, mapped := time.Unix(1, 0), time.Unix(5, 0)
		x.mapped(programPID, "/lib/libcudart.so", probed, mapped)
		if p := x.procs[programPID]; !p.Mapped.Equal(mapped) || !p.Attached.Equal(mapped) {
			t.Errorf("gated by %d: mapped at %v, attached at %v, want %v", gated, p.Mapped, p.Attached, mapped)
		}
	}
}

// Libraries are taken in the order of their addresses: the first that was mapped may come last.
func TestMappedSinceFirstLibrary(t *testing.T) {
	x := newTargets(decode.Clock{}, &reporter{log: slog.New(slog.DiscardHandler), notify: func(Notice) {}}, &LiveOptions{})
	x.admit(&proc.Process{PID: programPID}, false, time.Time{})
	first, second, probed := time.Unix(1, 0), time.Unix(2, 0), time.Unix(3, 0)
	x.mapped(programPID, "/lib/libcuda.so.1", probed, second)
	x.mapped(programPID, "/lib/libcudart.so", probed, first)
	if p := x.procs[programPID]; !p.Mapped.Equal(first) || !p.Attached.Equal(probed) {
		t.Errorf("mapped at %v, attached at %v, want %v and %v", p.Mapped, p.Attached, first, probed)
	}
}

// A process that names itself after its start has the new name, but not the names of its tasks after that.
func TestProcessNamesItself(t *testing.T) {
	pid := uint32(os.Getpid())
	x := newTargets(decode.Clock{}, &reporter{log: slog.New(slog.DiscardHandler), notify: func(Notice) {}}, &LiveOptions{})
	x.admit(&proc.Process{PID: pid, Comm: "python3"}, false, time.Time{})
	x.fs.Root = testkit.Tree(t, nil)
	if x.checkAlive(time.Unix(1, 0)); x.procs[pid].Comm != "python3" {
		t.Errorf("without a readable name: %q", x.procs[pid].Comm)
	}
	x.fs.Root = testkit.Tree(t, map[string]string{fmt.Sprintf("%d/task/%d/comm", pid, pid): "rank0\n"})
	if x.checkAlive(time.Unix(2, 0)); x.procs[pid].Comm != "rank0" {
		t.Errorf("the name is %q, want rank0", x.procs[pid].Comm)
	}
	x.fs.Root = testkit.Tree(t, map[string]string{fmt.Sprintf("%d/task/%d/comm", pid, pid): "task7\n"})
	if x.checkAlive(time.Unix(3, 0)); x.procs[pid].Comm != "rank0" {
		t.Errorf("the name is %q, want rank0", x.procs[pid].Comm)
	}
}
