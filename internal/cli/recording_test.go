package cli

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"os"
	"strconv"
	"strings"
	"time"

	"ingero/internal/session"
	"ingero/internal/store"
	"ingero/internal/store/segment"
	"ingero/internal/store/storetest"
	"ingero/internal/testkit"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

// began is the start of the tests' recordings.
var began = time.Date(2026, 11, 20, 14, 41, 0, 0, time.UTC)

// fixture is a reproducible recording: a training loop of 50 steps a second, and a server that
// allocates.
type fixture struct {
	db    *store.DB
	node  string
	start time.Time
	now   time.Time
	seq   uint64
	calls uint64
	ops   storetest.Counts
	runs  tick.Thread      // the trainer's account
	place tick.Where       // the trainer's place
	lost  time.Duration    // time that the trainer lost to a hog
	leak  bool             // the trainer's memory grows
	pace  int64            // steps a second; 0: 50
	asked []tick.Request   // requests that ended since the last tick
	reads []tick.Inference // reads of servers since then

	host   []tick.HostSum // since the last tick
	others []tick.Process
}

// startFixture begins a recording; its files are path and path.d.
func startFixture(path, id, node string, at time.Time) (*fixture, error) {
	return startBounded(path, id, node, at, 0)
}

// startBounded begins a recording with a bound, which also bounds its segments.
func startBounded(path, id, node string, at time.Time, bytes int64) (*fixture, error) {
	x := &fixture{node: node, start: at, now: at, ops: storetest.Counts{},
		runs: tick.Thread{PID: 4821, TID: 4821, Comm: "train.py", Since: at.UnixNano()}}
	var err error
	x.db, err = store.Open(store.Options{Path: path, MaxBytes: bytes, Now: func() time.Time { return x.now },
		Session: segment.Session{ID: id, Node: node, Started: at, Version: "v1.2.3", Kernel: "6.18.0", Mode: "trace", Target: "all users", PID: 99}})
	return x, err
}

var (
	fixtureLaunch   = testkit.Op("cudaLaunchKernel")
	fixtureCuLaunch = testkit.Op("cuLaunchKernel")
	fixtureSync     = testkit.Op("cudaStreamSynchronize")
	fixtureMalloc   = testkit.Op("cudaMalloc")
)

// second records one more second.
func (x *fixture) second() error {
	var calls []events.Call
	at := x.now.UnixNano()
	pace := cmp.Or(x.pace, 50)
	for step := range pace {
		begin := at + step*1e9/pace
		last := int64(0) // end of the previous call
		for i := range int64(4) {
			c := events.Call{Start: begin + i*20e3, Duration: 5000 + 100*(step%7), PID: 4821, TID: 4821, Weight: 1, Op: fixtureLaunch}
			c.OnCPU = c.Duration
			in := events.Call{Start: c.Start, PID: 4821, TID: 4821, Weight: 1, Op: fixtureCuLaunch, Parent: fixtureLaunch,
				Flags: events.CallNested | events.CallUnmeasured | events.CallInherited}
			calls = append(calls, c, in)
			last = c.End()
		}
		s := events.Call{Start: last + 10e3, Duration: 15e6 + 1000*step + 1e9/pace - 20e6, PID: 4821, TID: 4821, Weight: 1, Op: fixtureSync, Gap: 10e3, GapOnCPU: 10e3}
		if step == 20 {
			s.Duration, s.Runnable = 19e6, 4e6
		}
		s.Blocked, s.OnCPU = s.Duration/2, s.Duration-s.Duration/2-s.Runnable
		calls = append(calls, s)
		x.runs.InCalls.Add(&tick.Times{OnCPU: uint64(s.OnCPU) + 20e3, Runnable: uint64(s.Runnable), Blocked: uint64(s.Blocked)})
		x.runs.Sync.Add(&tick.Times{OnCPU: uint64(s.OnCPU), Runnable: uint64(s.Runnable), Blocked: uint64(s.Blocked)})
	}
	x.runs.Until = x.now.Add(time.Second).UnixNano()
	x.runs.Between.OnCPU = uint64(x.runs.Until-x.runs.Since) - x.runs.InCalls.Total()
	m := events.Call{Start: at + 500e6, Duration: 250e3, OnCPU: 250e3, PID: 5032, TID: 5040, Weight: 1, Op: fixtureMalloc, Args: [4]uint64{1 << 20}}
	if x.seq == 1 {
		m.Result, m.Flags, m.Args[0] = 2, events.CallFailed, 1<<40
	}
	calls = append(calls, m)
	x.ops.See(calls...)
	x.calls += uint64(len(calls))
	x.now = x.now.Add(time.Second)
	return errors.Join(x.db.Batch(&tick.Batch{Calls: calls}), x.db.Tick(x.tick(false)))
}

func (x *fixture) tick(final bool) *tick.Tick {
	x.seq++
	t := &tick.Tick{Time: x.now, Started: x.start, Seq: x.seq, Window: time.Second, Final: final, Records: x.calls,
		Self: tick.Self{CPU: time.Duration(x.seq) * 5 * time.Millisecond}, Threads: []tick.Thread{x.runs},
		Libraries: []tick.Library{{Path: "/usr/lib/libcudart.so.12", Lib: events.LibCudart, Probes: 32}}}
	t.Requests, t.Inference, x.asked, x.reads = x.asked, x.reads, nil, nil
	t.HostSums, t.Others, x.host = x.host, x.others, nil
	if x.lost > 0 {
		t.Chains = []tick.Chain{{ID: "c-1", Rule: "cpu-taken", Severity: tick.High, PID: 4821, From: x.start, To: x.now, Lost: x.lost,
			Culprits: []tick.Culprit{{Thread: events.Thread{PID: 8821, TID: 8821, Name: events.NameOf("stress-ng")}, Lost: x.lost}}}}
	}
	if x.leak {
		t.Chains = append(t.Chains, tick.Chain{ID: "c-leak", Rule: "memory-leak", Severity: tick.Medium, PID: 4821, From: x.start, To: x.now})
	}
	t.Ops = x.ops.List()
	for _, p := range []tick.Process{
		{PID: 4821, Comm: "train.py", Exe: "/usr/bin/python3.12", Cgroup: "/user.slice/job-1.scope"},
		{PID: 5032, Comm: "embed\x1b[31m", Exe: "/usr/bin/embed", Cgroup: "/system.slice/embed.service"},
	} {
		p.PPID, p.NSPID, p.UID = 1, p.PID, 1000
		if p.PID == 4821 {
			p.Where = x.place
		}
		p.Started, p.Mapped, p.Attached = x.start.Add(-time.Minute), x.start, x.start
		if p.PID == 5032 { // it ran before the trace: its first use of CUDA is unknown
			p.Mapped = time.Time{}
		}
		t.Processes = append(t.Processes, p)
	}
	return t
}

// end ends the recording as a trace does.
func (x *fixture) end() error { return errors.Join(x.db.Tick(x.tick(true)), x.db.Close()) }

// recordFixture creates a recording of some seconds.
func recordFixture(path, id, node string, at time.Time, seconds int) error {
	x, err := startFixture(path, id, node, at)
	for range seconds {
		if err == nil {
			err = x.second()
		}
	}
	if err != nil {
		return err
	}
	return x.end()
}

// paced is a script program that records twenty seconds at a pace: "paced FILE STEPS".
func paced() {
	x, err := startFixture(os.Args[1], "gpu-7-"+os.Args[2], "gpu-7", began)
	if err == nil {
		x.pace, err = strconv.ParseInt(os.Args[2], 10, 64)
	}
	for range 20 {
		if err == nil {
			err = x.second()
		}
	}
	if err = errors.Join(err, x.end()); err != nil {
		panic(err)
	}
}

// placed is a script program that records a second with the trainer's place: `placed FILE`.
func placed() {
	x, err := startFixture(os.Args[1], "gpu-9-one", "gpu-9", began)
	if err == nil {
		x.lost = 200 * time.Millisecond
		x.place = tick.Where{Cmdline: "python3 train.py --token ***", Runtime: "containerd", Container: strings.Repeat("3f2b8c1d", 8), ContainerName: "trainer",
			Pod: "train-0", Namespace: "ml", PodUID: "7f0c4a52-1b3d-4e5f-8a9b-0c1d2e3f4a5b", Job: "4711", Step: "0", Rank: tick.Numbered(0), WorldSize: tick.Numbered(8)}
		err = errors.Join(x.second(), x.end())
	}
	if err != nil {
		panic(err)
	}
}

// record is a script program, `record FILE`. It records three seconds on gpu-7 and, an hour later,
// one second on gpu-8. It is a separate process, since children of the test binary hold its
// open files, including locks, until exec.
func record() {
	path := os.Args[1]
	err := recordFixture(path, "gpu-7-one", "gpu-7", began, 3)
	if err = errors.Join(err, recordFixture(path, "gpu-8-two", "gpu-8", began.Add(time.Hour), 1)); err != nil {
		panic(err)
	}
}

// incident is a script program, `incident FILE`, that writes the recording of demo incident. That
// is a training loop of 12 seconds on the simulated stack, with a hog on its CPU for four of them.
func incident() {
	if err := recordIncident(os.Args[1]); err != nil {
		panic(err)
	}
}

func recordIncident(path string) error { return recordScenario(path, &scenarios[0]) }

// recordScenario writes the recording of a scenario to a database.
func recordScenario(path string, a *scenario, labels ...tick.Label) error {
	text, err := a.recording()
	if err != nil {
		return err
	}
	log, err := segment.OpenLog(bytes.NewReader(text), int64(len(text)))
	if err != nil {
		return err
	}
	s := log.Session()
	s.ID = "gpu-7-incident"
	replay := segment.NewReplay(log, segment.ReplayOptions{})
	db, err := store.Open(store.Options{Path: path, Session: s, Now: replay.Now})
	if err != nil {
		return err
	}
	if err := db.Batch(&tick.Batch{Labels: labels}); err != nil {
		return err
	}
	return session.Run(context.Background(), session.Config{Source: session.FromRecording(replay), Clock: replay, Sinks: []tick.Sink{db}, Poll: replayPoll})
}
