package diff

import (
	"context"
	"errors"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"ingero/internal/query"
	"ingero/internal/store"
	"ingero/internal/store/segment"
	"ingero/internal/testkit"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

var (
	opLaunch = testkit.Op("cudaLaunchKernel")
	opCopy   = testkit.Op("cudaMemcpyAsync")
	opSync   = testkit.Op("cudaStreamSynchronize")
)

// loop is a recorded training loop. Times are ns.
type loop struct {
	pid      uint32
	comm     string
	where    tick.Where
	seconds  int
	seed     uint64
	gpu      int64 // wait of the synchronize
	cpu      int64 // between the calls
	launches int
	copies   int
	copyNS   int64
	syncs    int                  // 0: one per step
	hog      int64                // taken from each step
	hogFrom  int                  // first second of the hog
	line     string               // function that copies
	noise    float64              // of the GPU's time
	deleted  int                  // seconds without accounts: the older part of its log is deleted
	gpuOf    func(step int) int64 // nil: gpu
	counted  bool                 // ticks have the kernel's counts, and calls come when they return
	reports  []tick.Report
}

func healthy() loop {
	return loop{pid: 4821, comm: "python3", where: tick.Where{Cmdline: "python3 /x/train.py"}, seconds: 40, seed: 1,
		gpu: 14_000_000, cpu: 1_000_000, launches: 10, copies: 2, copyNS: 50_000, line: "load", noise: 0.01}
}

// recorder writes loops to a database, in parallel.
type recorder struct {
	loop
	r     *rand.Rand
	now   int64 // current time of the loop
	acct  tick.Thread
	calls []events.Call
	waits []events.Wait
	made  []events.Call // all, if counted
	steps int
}

// steady returns a loop whose steps take some seconds each, exactly.
func steady(seconds int, length func(step int) int64) loop {
	l := healthy()
	l.seconds, l.noise, l.counted = seconds, 0, true
	rest := l.cpu + int64(l.copies)*(l.copyNS+1000) + int64(l.launches)*6000
	l.gpuOf = func(step int) int64 { return length(step)*int64(time.Second) - rest }
	return l
}

// count returns the calls that returned in [from, to), and what the kernel counted before to.
func (x *recorder) count(from, to int64) (calls []events.Call, ops []tick.Op) {
	for i := range x.made {
		c := &x.made[i]
		if c.Start >= to {
			continue
		}
		at := slices.IndexFunc(ops, func(o tick.Op) bool { return o.Op == c.Op })
		if at < 0 {
			at = len(ops)
			ops = append(ops, tick.Op{PID: c.PID, Op: c.Op})
		}
		n := &ops[at].Sum
		if n.Calls++; c.End() >= to {
			continue
		}
		n.Done, n.Total, n.OnCPU = n.Done+1, n.Total+uint64(c.Duration), n.OnCPU+uint64(c.OnCPU)
		if c.End() >= from {
			calls = append(calls, *c)
		}
	}
	return calls, ops
}

// step makes one step.
func (x *recorder) step(second int) {
	call := func(op events.Op, ns, gap int64, stack uint32) {
		c := events.Call{Start: x.now + gap, Duration: ns, OnCPU: ns, Gap: gap, GapOnCPU: gap, PID: x.pid, TID: x.pid, Weight: 1, Op: op, Stack: stack}
		if isSync(op) {
			c.OnCPU, c.Blocked = ns/10, ns-ns/10
			x.acct.Sync.Add(&tick.Times{OnCPU: uint64(c.OnCPU), Blocked: uint64(c.Blocked)})
		}
		x.acct.InCalls.Add(&tick.Times{OnCPU: uint64(c.OnCPU), Blocked: uint64(c.Blocked)})
		x.acct.Between.OnCPU += uint64(gap)
		x.calls = append(x.calls, c)
		x.now = c.End()
	}
	call(opCopy, x.copyNS, x.cpu, 1)
	for range x.copies - 1 {
		call(opCopy, x.copyNS, 1000, 1)
	}
	if x.hog > 0 && second >= x.hogFrom {
		x.waits = append(x.waits, events.Wait{Start: x.now, Duration: x.hog, Taken: x.hog, PID: x.pid, TID: x.pid, State: events.WaitRunnable,
			Who: events.Thread{PID: 9, TID: 9 + uint32(second), Name: events.NameOf("stress-ng-3")}})
		x.acct.Between.Runnable += uint64(x.hog)
		x.now += x.hog
	}
	for range x.launches {
		call(opLaunch, 5000, 1000, 2)
	}
	if x.gpuOf != nil {
		x.gpu = x.gpuOf(x.steps)
	}
	x.steps++
	syncs := max(x.syncs, 1)
	for range syncs {
		call(opSync, int64(float64(x.gpu)*(1+x.noise*x.r.NormFloat64()))/int64(syncs), 1000, 3)
	}
}

// record makes a database of loops that begin at the hour.
func record(t testing.TB, loops ...loop) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "x.db")
	began := time.Date(2026, 11, 20, 15, 0, 0, 0, time.UTC)
	now := began
	db, err := store.Open(store.Options{Path: path, Now: func() time.Time { return now }, Session: segment.Session{ID: "gpu-1-a", Node: "gpu-1", Started: began, PID: 99}})
	if err != nil {
		t.Fatal(err)
	}
	var all []*recorder
	seconds := 0
	stacks := []events.Stack{stackOf(2, "forward"), stackOf(3, "loss")}
	for _, l := range loops {
		x := &recorder{loop: l, r: rand.New(rand.NewPCG(l.seed, uint64(l.pid))), now: began.UnixNano()}
		x.acct = tick.Thread{PID: l.pid, TID: l.pid, Since: x.now}
		if l.deleted > 0 { // and the run is a part of the recording
			x.acct.Since -= int64(time.Hour)
		}
		all, seconds = append(all, x), max(seconds, l.seconds)
		stacks = append(stacks, stackOf(1, l.line))
	}
	for s := range seconds {
		now = now.Add(time.Second)
		b := tick.Batch{Stacks: stacks}
		tk := tick.Tick{Time: now, Started: began, Seq: uint64(s + 1), Window: time.Second, Final: s == seconds-1}
		for _, x := range all {
			x.calls, x.waits = x.calls[:0], x.waits[:0]
			for x.now < now.UnixNano() && s < x.seconds {
				x.step(s)
			}
			x.acct.Until = x.now
			if x.counted {
				x.made = append(x.made, x.calls...)
				var ops []tick.Op
				x.calls, ops = x.count(now.Add(-time.Second).UnixNano(), now.UnixNano())
				tk.Ops = append(tk.Ops, ops...)
			}
			b.Calls, b.Waits = append(b.Calls, x.calls...), append(b.Waits, x.waits...)
			tk.Reports = append(tk.Reports, x.reports...)
			if s >= x.deleted {
				tk.Threads = append(tk.Threads, x.acct)
			}
			tk.Processes = append(tk.Processes, tick.Process{PID: x.pid, NSPID: x.pid, Comm: x.comm, Started: began, Mapped: began, Attached: began, Where: x.where})
		}
		stacks = nil
		if err := errors.Join(db.Batch(&b), db.Tick(&tk)); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

func stackOf(id uint32, function string) events.Stack {
	return events.Stack{ID: id, PID: 4821, Frames: []events.Frame{{Kind: events.FramePython, Func: function, File: "/x/train.py", Line: 8}}}
}

// compared compares two databases.
func compared(t testing.TB, a, b string, o Options) *Result {
	t.Helper()
	var runs []*Run
	for _, path := range []string{a, b} {
		r, err := query.Open(t.Context(), path)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = r.Close() })
		run, err := Open(context.Background(), r, time.Time{}, time.Time{}, o)
		if err != nil {
			t.Fatal(err)
		}
		runs = append(runs, run)
	}
	res, err := Compare(context.Background(), runs[0], runs[1])
	if err != nil {
		t.Fatal(err)
	}
	return res
}
