package store

import (
	"errors"
	"maps"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"ingero/internal/store/segment"
	"ingero/internal/store/storetest"
	"ingero/internal/testkit"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

// used is a process of TestNumberUsedAgain in a tick.
type used struct {
	started time.Duration // since the recording's start
	calls   string        // since the previous tick, as first letters of operations
	ended   bool          // before this tick
	forget  bool          // no longer in ticks
}

// After a pid is reused, the file has only the last process's activity if the earlier process was
// forgotten, and both processes' sums otherwise.
func TestNumberUsedAgain(t *testing.T) {
	const pid = 77
	sum := func(started time.Duration, ops, gaps, states string) string {
		return strings.Join([]string{"process", started.String(), "ops", ops, "gaps", gaps, "states", states}, " ")
	}
	for _, tt := range []struct {
		name  string
		ticks []used
		much  int // processes of the first tick, forgotten at once
		want  string
	}{
		{"after it was forgotten", []used{{started: 1, calls: "mmff"}, {forget: true}, {started: 2, calls: "mmm"}}, 0, sum(2, "cudaMalloc:3", "3", "cudaMalloc:3")},
		{"after the file alone knew it", []used{{started: 1, calls: "mmff"}, {forget: true}, {started: 2, calls: "mmm"}}, 2 * rememberedMore, sum(2, "cudaMalloc:3", "3", "cudaMalloc:3")},
		{"in the tick in which it was forgotten", []used{{started: 1, calls: "mmff"}, {started: 2, calls: "m", forget: true}}, 0, sum(2, "cudaMalloc:1", "1", "cudaMalloc:1")},
		{"by one that has not called", []used{{started: 1, calls: "mmff"}, {forget: true}, {started: 2}}, 0, sum(2, "", "", "")},
		{"while the one before is reported", []used{{started: 1, calls: "mmff", ended: true}, {started: 2, calls: "mmm"}}, 0, sum(2, "cudaFree:2 cudaMalloc:5", "7", "cudaMalloc:3")},
		{"by nobody else", []used{{started: 1, calls: "mmff"}, {forget: true}, {started: 1}}, 0, sum(1, "cudaFree:2 cudaMalloc:2", "4", "cudaFree:2 cudaMalloc:2")},
	} {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "x.db")
			db, c := open(t, path, Options{Session: segment.Session{ID: "one", Started: storetest.Began}})
			k := storetest.NewKernel()
			for i, u := range tt.ticks {
				if err := errors.Join(db.Batch(u.batch(pid, k, c)), db.Tick(u.tick(pid, k, c, i, tt.much))); err != nil {
					t.Fatal(err)
				}
			}
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
			if got := ofNumber(t, path, pid); got != tt.want {
				t.Errorf("the file has %s\nwant %s", got, tt.want)
			}
			restoreFile(t, path, "one")
			if got := ofNumber(t, path, pid); got != tt.want {
				t.Errorf("made anew it has %s\nwant %s", got, tt.want)
			}
		})
	}
}

// Two pids that are reused in one tick each get the right rows.
func TestNumbersUsedAgainAtOnce(t *testing.T) {
	const forgotten, reported = 77, 78
	path := filepath.Join(t.TempDir(), "x.db")
	db, c := open(t, path, Options{Session: segment.Session{ID: "one", Started: storetest.Began}})
	k := storetest.NewKernel()
	for i, u := range [][2]used{
		{{started: 1, calls: "mmff"}, {started: 1, calls: "mmmff"}},
		{{forget: true}, {started: 1, ended: true}},
		{{started: 2, calls: "m"}, {started: 2, calls: "f"}},
	} {
		err := errors.Join(db.Batch(u[0].batch(forgotten, k, c)), db.Batch(u[1].batch(reported, k, c)))
		x := u[0].tick(forgotten, k, c, i, 0)
		x.Processes = append(x.Processes, u[1].process(reported, c))
		if err := errors.Join(err, db.Tick(x)); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	for pid, want := range map[uint32]string{
		forgotten: "process 2ns ops cudaMalloc:1 gaps 1 states cudaMalloc:1",
		reported:  "process 2ns ops cudaFree:3 cudaMalloc:3 gaps 6 states cudaFree:1",
	} {
		if got := ofNumber(t, path, pid); got != want {
			t.Errorf("%d: the file has %s\nwant %s", pid, got, want)
		}
	}
}

// batch makes the calls; each fails.
func (u *used) batch(pid uint32, k *storetest.Kernel, c *clock) *tick.Batch {
	c.advance(time.Second)
	b := &tick.Batch{}
	if u.forget {
		maps.DeleteFunc(k.Ops, func(key storetest.Key, _ *tick.Op) bool { return key.PID == pid })
		b.Procs = append(b.Procs, tick.ProcEvent{Time: c.now.UnixNano() - 1e9, Kind: tick.ProcExited, PID: pid, TID: pid})
	}
	if u.started > 1 {
		b.Procs = append(b.Procs, tick.ProcEvent{Time: c.now.UnixNano() - 9e8, Kind: tick.ProcForked, PID: 1, TID: 1, Peer: pid})
	}
	k.Track.Batch(b.Calls, b.Procs)
	k.See([]events.Call{{Start: c.now.UnixNano(), PID: 4821, TID: 4821, Weight: 1, Op: testkit.Op("cudaMalloc")}}) // ticks need a call
	for i, letter := range u.calls {
		name := map[rune]string{'m': "cudaMalloc", 'f': "cudaFree"}[letter]
		b.Calls = append(b.Calls, events.Call{Start: c.now.UnixNano() - int64(len(u.calls)-i)*2e6, Duration: 1e6, Gap: 1e6, PID: pid, TID: pid, Weight: 1, Op: testkit.Op(name), Flags: events.CallFailed, Result: 2})
	}
	k.See(b.Calls)
	return b
}

// tick lists the process, unless it is forgotten and no other process has its pid.
func (u *used) tick(pid uint32, k *storetest.Kernel, c *clock, n, much int) *tick.Tick {
	x := k.Tick(uint64(n+1), c.now, false)
	if !u.forget || u.calls != "" {
		x.Processes = append(x.Processes, u.process(pid, c))
	}
	for i := range much {
		if n == 0 {
			x.Processes = append(x.Processes, tick.Process{PID: uint32(10_000 + i), Started: storetest.Began})
		}
	}
	return x
}

func (u *used) process(pid uint32, c *clock) tick.Process {
	p := tick.Process{PID: pid, Comm: "storm", Started: storetest.Began.Add(u.started)}
	if u.ended {
		p.Ended = c.now
	}
	return p
}

// ofNumber returns the file's rows of a pid.
func ofNumber(t *testing.T, path string, pid uint32) string {
	t.Helper()
	one := func(query string) string { return strings.ReplaceAll(testkit.Rows(t, path, query, pid), "\n", " ") }
	started := one("SELECT (p.started_ns - s.started_ns) || 'ns' FROM processes p JOIN sessions s ON s.id = session WHERE pid = ?")
	return strings.Join([]string{"process", started, "ops", one("SELECT name || ':' || calls FROM ops WHERE pid = ? ORDER BY name"), "gaps", one("SELECT calls FROM gaps WHERE pid = ?"),
		"states", one("SELECT name || ':' || count FROM errors WHERE pid = ? ORDER BY name")}, " ")
}
