package query

import (
	"context"
	"database/sql"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"ingero/internal/store"
	"ingero/internal/store/segment"
	"ingero/internal/store/storetest"
	"ingero/internal/testkit"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

var began = time.Date(2026, 11, 21, 14, 41, 0, 0, time.UTC)

var (
	opLaunch   = testkit.Op("cudaLaunchKernel")
	opCuLaunch = testkit.Op("cuLaunchKernel")
	opSync     = testkit.Op("cudaStreamSynchronize")
	opCuSync   = testkit.Op("cuStreamSynchronize")
	opMalloc   = testkit.Op("cudaMalloc")
)

// session is a recording under construction.
type session struct {
	t     testing.TB
	db    *store.DB
	now   time.Time
	r     *rand.Rand
	calls []events.Call
	ops   storetest.Counts
	seq   uint64
	left  uint64 // records that were lost
}

func record(t testing.TB, path string, s segment.Session) *session {
	t.Helper()
	x := &session{t: t, now: began, r: rand.New(rand.NewPCG(1, 2)), ops: storetest.Counts{}}
	if s.Started.IsZero() {
		s.Started = began
	}
	x.now = s.Started
	var err error
	x.db, err = store.Open(store.Options{Path: path, Session: s, Now: func() time.Time { return x.now }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = x.db.Close() })
	return x
}

// launched are the functions of a second's calls; one process's function has no name.
var launched = []events.Function{{PID: 4821, Name: "_ZN3gpu3addIfEEvPT_i"}, {PID: 4830, Why: events.NoNameUnseen}}

// stacks are those of a second's calls. Some calls have a third, unknown stack.
var stacks = []events.Stack{{ID: 2, PID: 4821, Frames: []events.Frame{
	{Kind: events.FrameNative, Module: "/lib/libcudart.so.12", Offset: 7}, {Kind: events.FramePython, Func: "step", File: "train.py", Line: 8},
	{Kind: events.FrameNative, Func: "main", Module: "/bin/python3", Offset: 9, File: "main.c", Line: 3, Inline: true}}},
	{ID: 1, PID: 4821, Cut: true, Frames: []events.Frame{{Kind: events.FrameGap, Func: "no table"}}}}

// second records a second of two processes: launches with the driver's inside, a failing
// allocation, a synchronize with the driver's inside.
func (x *session) second() {
	x.t.Helper()
	var calls []events.Call
	for _, pid := range []uint32{4821, 4830} {
		at := x.now.UnixNano()
		for i := range int64(50) {
			gap := 1000 + x.r.Int64N(1000)
			if i == 0 {
				gap = 0
			}
			at += gap
			c := events.Call{Start: at, PID: pid, TID: pid, Weight: 1, Op: opLaunch, Gap: gap, GapOnCPU: gap, Duration: 5000 + x.r.Int64N(3000)}
			switch {
			case i == 49:
				c.Op, c.Duration, c.Blocked, c.Runnable = opSync, 15e6+x.r.Int64N(1e6), 9e6, 1e6
			case i%10 == 9:
				c.Op, c.Result, c.Flags = opMalloc, 2, events.CallFailed
			}
			c.OnCPU = c.Duration - c.Blocked - c.Runnable
			in := c
			in.Flags, in.Parent, in.Gap, in.GapOnCPU = events.CallNested, c.Op, 0, 0
			switch c.Op {
			case opLaunch:
				in.Op, in.Duration, in.OnCPU = opCuLaunch, 0, 0
				in.Flags |= events.CallUnmeasured | events.CallInherited
				calls = append(calls, c, in)
			case opSync:
				in.Op, in.Start, in.Duration, in.OnCPU = opCuSync, c.Start+500, c.Duration-1000, c.OnCPU-1000
				calls = append(calls, in, c)
			default:
				calls = append(calls, c)
			}
			at = c.End()
		}
	}
	for i := range calls {
		calls[i].Stack = uint32(calls[i].Op) % 3
	}
	x.ops.See(calls...)
	x.calls = append(x.calls, calls...)
	x.now = x.now.Add(time.Second)
	if err := errors.Join(x.db.Batch(&tick.Batch{Calls: calls, Functions: launched, Stacks: stacks}), x.db.Tick(x.tick(false))); err != nil {
		x.t.Fatal(err)
	}
}

// idle lets time pass without calls.
func (x *session) idle(d time.Duration) {
	x.t.Helper()
	x.now = x.now.Add(d)
	if err := x.db.Tick(x.tick(false)); err != nil {
		x.t.Fatal(err)
	}
}

func (x *session) tick(final bool) *tick.Tick {
	x.seq++
	t := &tick.Tick{Time: x.now, Started: began, Seq: x.seq, Final: final, Records: uint64(len(x.calls)), Self: tick.Self{CPU: time.Millisecond, RSS: 30 << 20},
		Host:      tick.Host{CPU: 0.5, CPUs: 16, MemTotal: 128 << 30, MemAvail: 64 << 30, SwapTotal: 1 << 30, SwapUsed: 1, Load: [3]float64{1, 2, 3}},
		Libraries: []tick.Library{{Path: "/lib/libcuda.so.1", Lib: events.LibCuda, Probes: 40}, {Path: "/lib/libcudart.so.12", Lib: events.LibCudart, Probes: 32}},
		Reports:   []tick.Report{{Kind: "missing-symbol", Object: "cuLaunch", Why: "not exported"}},
		Drops:     []tick.Drop{{Reason: "ring-full", Count: x.left}, {Reason: "thinned"}}}
	t.States = []tick.State{stateOf(x.now, x.seq)}
	t.Xids, t.GPUs = []tick.Xid{faultOf(x.now, x.seq)}, []tick.GPU{{Time: x.now, Bus: "0000:75:00.0"}}
	t.Inference = []tick.Inference{inferenceOf(x.now, x.seq)}
	t.EngineSteps = []tick.EngineSteps{engineStepsOf(x.seq)}
	t.Requests = requestsOf(x.now, x.seq)
	t.Ops = x.ops.List()
	for _, pid := range []uint32{4821, 4830, 4999} { // the last one makes no call
		t.Processes = append(t.Processes, tick.Process{PID: pid, PPID: 1, NSPID: pid, UID: 1000, Comm: "python3", Exe: "/usr/bin/python3",
			Started: began.Add(-time.Minute), Mapped: began, Attached: began.Add(20 * time.Millisecond)})
	}
	return t
}

func (x *session) close() {
	x.t.Helper()
	if err := errors.Join(x.db.Tick(x.tick(true)), x.db.Close()); err != nil {
		x.t.Fatal(err)
	}
}

func openReader(t testing.TB, path string) *Reader {
	t.Helper()
	r, err := Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

func summary(t *testing.T, r *Reader, f Filter) *Summary {
	t.Helper()
	s, err := r.Summary(context.Background(), f)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestNoDatabase(t *testing.T) {
	dir := t.TempDir()
	if _, err := Open(t.Context(), filepath.Join(dir, "none.db")); !errors.Is(err, ErrNoDatabase) {
		t.Errorf("no file: %v", err)
	}
	if entries, _ := os.ReadDir(dir); len(entries) != 0 {
		t.Errorf("reading made %v", entries)
	}
	text := filepath.Join(dir, "text.db")
	if err := os.WriteFile(text, []byte(strings.Repeat("no database ", 1000)), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), text); !errors.Is(err, store.ErrNotDatabase) {
		t.Errorf("text: %v", err)
	}
	empty := filepath.Join(dir, "empty.db")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), empty); !errors.Is(err, store.ErrNotDatabase) {
		t.Errorf("empty: %v", err)
	}
}

func TestSessions(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.db")
	first := record(t, path, segment.Session{ID: "one", Node: "gpu-7", Mode: "trace", Target: "pid 4821", Version: "1.0", Kernel: "6.18", PID: 7, MonoOffset: 5})
	first.second()
	first.close()
	second := record(t, path, segment.Session{ID: "two", Started: began.Add(time.Hour)})
	second.second()
	r := openReader(t, path)
	ctx := context.Background()
	got, err := r.Sessions(ctx)
	if err != nil || len(got) != 2 {
		t.Fatal(got, err)
	}
	if two := got[0]; two.ID != "two" || two.State != "running" || !two.Ended.IsZero() || two.Pruned || two.LogBytes == 0 {
		t.Errorf("the running one: %+v", two)
	}
	one := got[1]
	if one.ID != "one" || one.Node != "gpu-7" || one.State != "ended" || !one.Ended.Equal(began.Add(time.Second)) || !one.Started.Equal(began) ||
		one.Records != uint64(len(first.calls)) || one.PID != 7 || one.MonoOffset != 5 || one.CPU != time.Millisecond || one.Target != "pid 4821" {
		t.Errorf("the ended one: %+v", one)
	}
	if latest, err := r.Session(ctx, ""); err != nil || latest.ID != "two" {
		t.Errorf("latest = %s, %v", latest.ID, err)
	}
	if _, err := r.Session(ctx, "three"); !errors.Is(err, ErrNoSession) {
		t.Errorf("unknown: %v", err)
	}
	second.close()
	if s, err := r.Session(ctx, "two"); err != nil || s.State != "ended" {
		t.Errorf("after its end: %s, %v", s.State, err)
	}
	if n := r.Size(); n < one.LogBytes+got[0].LogBytes {
		t.Errorf("size = %d", n)
	}
}

func TestDatabaseWithoutSessions(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.db")
	record(t, path, segment.Session{ID: "only"}).close()
	r := openReader(t, path)
	if _, err := r.db.Exec("DELETE FROM sessions"); err == nil {
		t.Error("a reader can delete")
	}
	s := summary(t, r, Filter{})
	if len(s.Ops) != 0 || len(s.Gaps) != 0 || s.Session.ID != "only" {
		t.Errorf("summary of nothing: %+v", s)
	}
}

// A killed writer's database is readable without write permission.
func TestReadOnlyAfterKill(t *testing.T) {
	from, to := t.TempDir(), t.TempDir()
	x := record(t, filepath.Join(from, "x.db"), segment.Session{ID: "killed"})
	x.second()
	for _, name := range []string{"x.db", "x.db-wal", "x.db.d/killed-000000.ilog"} { // as the kill left it
		b, err := os.ReadFile(filepath.Join(from, name))
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(os.MkdirAll(filepath.Dir(filepath.Join(to, name)), 0o755), os.WriteFile(filepath.Join(to, name), b, 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	readOnly(t, to)
	r := openReader(t, filepath.Join(to, "x.db"))
	if r.temp == "" {
		t.Error("it was read in place: the test shows nothing")
	}
	s := summary(t, r, Filter{})
	if s.Session.State != "interrupted" || !s.Session.Ended.Equal(began.Add(time.Second)) || len(s.Processes) != 3 {
		t.Errorf("state %s, ended %v, %d processes", s.Session.State, s.Session.Ended, len(s.Processes))
	}
	calls, err := r.Calls(context.Background(), Filter{}, 0)
	if err != nil || !slices.Equal(calls, x.calls) {
		t.Errorf("%d calls, want %d (%v)", len(calls), len(x.calls), err)
	}
	temp := r.temp
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(temp); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the copy is still there: %v", err)
	}
}

// The copy of a killed recording stays interrupted while another recording is made, and is then
// stale.
func TestCopyIsNotRecording(t *testing.T) {
	from, to := t.TempDir(), t.TempDir()
	x := record(t, filepath.Join(from, "x.db"), segment.Session{ID: "killed"})
	x.second()
	for _, name := range []string{"x.db", "x.db-wal", "x.db.d/killed-000000.ilog"} { // as the kill left it
		if err := os.MkdirAll(filepath.Dir(filepath.Join(to, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := copyFile(t.Context(), filepath.Join(to, name), filepath.Join(from, name)); err != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Join(to, "x.db")
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.Exec(toFirstSchema); err != nil { // so that it is copied
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	r := openReader(t, path)
	check := func(when string, stale bool) {
		t.Helper()
		if s := summary(t, r, Filter{}); s.Session.ID != "killed" || s.Session.State != "interrupted" || r.Stale() != stale {
			t.Errorf("%s: session %s is %s, stale: %v, want killed, interrupted, %v", when, s.Session.ID, s.Session.State, r.Stale(), stale)
		}
	}
	check("before", false)
	second := record(t, path, segment.Session{ID: "second", Started: began.Add(time.Hour)})
	check("while another is recorded", true)
	second.close()
	check("after it", true)
	if openReader(t, path).Stale() {
		t.Error("a reader of the file itself is stale")
	}
}

// readOnly makes a directory read-only even for root.
func readOnly(t *testing.T, dir string) {
	t.Helper()
	testkit.NeedRoot(t)
	testkit.NeedMount(t, syscall.Mount(dir, dir, "", syscall.MS_BIND, ""))
	t.Cleanup(func() { _ = syscall.Unmount(dir, 0) })
	if err := syscall.Mount("", dir, "", syscall.MS_BIND|syscall.MS_REMOUNT|syscall.MS_RDONLY, ""); err != nil {
		t.Fatal(err)
	}
}

func TestReadOnlyAfterClose(t *testing.T) {
	dir := t.TempDir()
	x := record(t, filepath.Join(dir, "x.db"), segment.Session{ID: "closed"})
	x.second()
	x.close()
	readOnly(t, dir)
	r := openReader(t, filepath.Join(dir, "x.db"))
	if r.temp != "" {
		t.Error("a closed database had to be copied")
	}
	if d := cmp.Diff("closed", summary(t, r, Filter{}).Session.ID); d != "" {
		t.Error(d)
	}
}
