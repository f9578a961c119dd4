// Package storetest makes the calls, waits and ticks of a training loop, for the tests of the store.
// It must not import the store's packages: their tests import it.
package storetest

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"ingero/internal/stats"
	"ingero/internal/testkit"
	"ingero/internal/tick"
	"ingero/internal/track"
	"ingero/pkg/events"

	diff "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// Began is the start of the tests' recordings.
var Began = time.Date(2026, 11, 21, 14, 41, 0, 0, time.UTC)

// Generator makes the calls of a training loop: launches with their driver calls folded in, copies,
// a synchronize per step, now and then an allocation.
type Generator struct {
	r       *rand.Rand
	threads []genThread
	n       int
	Waiting WaitGenerator
}

type genThread struct {
	pid, tid uint32
	now      int64 // return of its last outermost call
}

func NewGenerator(seed uint64) *Generator {
	g := &Generator{r: rand.New(rand.NewPCG(seed, 1)), Waiting: NewWaitGenerator(seed)}
	for i := range uint32(4) {
		g.threads = append(g.threads, genThread{pid: 4821 + i/2, tid: 5000 + i, now: Began.UnixNano() + int64(i)*1000})
	}
	return g
}

var (
	OpLaunch   = testkit.Op("cudaLaunchKernel")
	OpCuLaunch = testkit.Op("cuLaunchKernel")
	OpCopy     = testkit.Op("cudaMemcpyAsync")
	OpSync     = testkit.Op("cudaStreamSynchronize")
	OpMalloc   = testkit.Op("cudaMalloc")
)

// Calls appends n or n+1 calls.
func (g *Generator) Calls(dst []events.Call, n int) []events.Call {
	for end := len(dst) + n; len(dst) < end; g.n++ {
		th := &g.threads[g.r.IntN(len(g.threads))]
		c := events.Call{PID: th.pid, TID: th.tid, Weight: 1, Device: 1}
		c.Gap = 200 + g.r.Int64N(5000)
		c.GapOnCPU = c.Gap
		c.Start = th.now + c.Gap
		if g.r.IntN(200) == 0 {
			c.GapRunnable, c.GapBlocked = c.Gap/4, c.Gap/2
			c.GapOnCPU = c.Gap - c.GapRunnable - c.GapBlocked
		}
		switch k := g.n % 24; {
		case k == 23:
			c.Op, c.Duration, c.Args[0] = OpSync, 2e6+g.r.Int64N(1e5), 0x55aa_0000
			c.Runnable = int64(g.r.IntN(2)) * g.r.Int64N(1e5)
			c.Blocked = c.Duration / 2
		case k >= 20:
			c.Op, c.Duration, c.Tag = OpCopy, 3000+g.r.Int64N(2000), 1
			c.Args = [4]uint64{1 << 20, 0x7f00_0000_0000 + uint64(g.n)*4096, 0x5500_0000_0000, 0x55aa_0000}
		case k == 19 && g.r.IntN(20) == 0:
			c.Op, c.Duration, c.Result, c.Flags = OpMalloc, 90_000, 2, events.CallFailed
			c.Args = [4]uint64{1 << 30}
		default:
			c.Op, c.Duration = OpLaunch, int64(4000+600*g.r.ExpFloat64())
			c.Args = [4]uint64{0x4000_0000 + uint64(k)*64, 0x55aa_0000, events.PackDim3(128, 1, 1), events.PackDim3(256, 1, 1)}
		}
		c.OnCPU = c.Duration - c.Runnable - c.Blocked
		th.now = c.End()
		dst = append(dst, c)
		if c.Op == OpLaunch {
			in := events.Call{Start: c.Start, Args: c.Args, PID: c.PID, TID: c.TID, Weight: 1, Op: OpCuLaunch, Parent: OpLaunch, Device: c.Device,
				Flags: events.CallNested | events.CallUnmeasured | events.CallInherited}
			dst = append(dst, in)
		}
	}
	return dst
}

// Odd returns a call with random values in all fields.
func (g *Generator) Odd() events.Call {
	u := func() uint64 { return g.r.Uint64() >> g.r.IntN(64) }
	i := func() int64 { return int64(g.r.Uint64()) >> g.r.IntN(64) }
	return events.Call{Start: i(), Duration: i(), OnCPU: i(), Runnable: i(), Throttled: i() * int64(g.r.IntN(2)), Blocked: i(),
		Gap: i(), GapOnCPU: i(), GapRunnable: i(), GapThrottled: i() * int64(g.r.IntN(2)), GapBlocked: i(), Args: [4]uint64{u(), u(), u(), u()},
		PID: uint32(u()), TID: uint32(u()), Tag: uint32(u()), Result: int32(i()), Weight: uint32(u()), Stack: uint32(u()), GapStack: uint32(u()) * uint32(g.r.IntN(2)),
		Op: events.Op(u()), Parent: events.Op(u()), Flags: events.CallFlags(u()), Device: int16(u())}
}

// Kernel counts calls for ticks, as the kernel does.
type Kernel struct {
	Ops     Counts
	Threads Accounts
	Track   *track.Tracker
}

func NewKernel() *Kernel {
	return &Kernel{Ops: Counts{}, Threads: Accounts{}, Track: track.New()}
}

func (k *Kernel) Op(pid uint32, o events.Op) *tick.Op { return k.Ops.Op(pid, o) }

func (k *Kernel) See(calls []events.Call) {
	k.Track.Batch(calls, nil)
	k.Ops.See(calls...)
}

// Tick returns a copy of the current state.
func (k *Kernel) Tick(seq uint64, at time.Time, final bool) *tick.Tick {
	k.Threads.pass(at.UnixNano(), seq)
	t := &tick.Tick{Time: at, Started: Began, Seq: seq, Window: time.Second, Final: final, Records: seq * 100,
		Self:      tick.Self{CPU: time.Duration(seq) * time.Millisecond, RSS: 30 << 20},
		Host:      tick.Host{CPU: 0.47, CPUs: 8, MemTotal: 64 << 30, MemAvail: 11 << 30, Load: [3]float64{3.25, 2, 1}},
		Drops:     []tick.Drop{{Reason: "ring-full", Count: seq}, {Reason: "thinned"}},
		Libraries: []tick.Library{{Path: "/usr/lib/libcudart.so.12", Lib: events.LibCudart, BuildID: "ab12", Probes: 32}},
		Reports:   []tick.Report{{Kind: "missing-symbol", Object: "cuLaunchGrid", Why: "libcuda.so.1 has none"}},
	}
	t.Threads = k.Threads.accounts()
	t.Ops = k.Ops.List()
	for _, pid := range []uint32{4821, 4822} {
		p := tick.Process{PID: pid, PPID: 1, NSPID: pid, UID: 1000, Comm: "python3", Exe: "/usr/bin/python3", Cgroup: "/user.slice",
			Started: Began.Add(-time.Minute), Mapped: Began, Attached: Began.Add(30 * time.Millisecond)}
		if final {
			p.Ended = at
		}
		t.Processes = append(t.Processes, p)
	}
	t.States = k.Track.Tick(t.Processes, t.Ops)
	t.HostSums = HostSums(seq)
	tellGPUs(t, seq)
	tellInference(t, seq)
	t.Others = []tick.Process{{PID: 711, PPID: 1, NSPID: 711, Comm: "cron", Cgroup: "/system.slice/cron.service", Started: Began.Add(-time.Hour)}}
	return t
}

func Ptr[T any](v T) *T { return &v }

// tellGPUs adds a burst of faults, and two GPUs, one of which is lost in the third tick.
func tellGPUs(t *tick.Tick, seq uint64) {
	at := t.Time.UnixNano() - int64(time.Second)
	root := tick.Xid{Time: at, Code: 172, Bus: "0000:75:00", Msg: "SM ICACHE", Via: tick.ViaTracepoint, Burst: seq, At: 1, Root: 172}
	hit := tick.Xid{Time: at + 1500, Code: 13, Bus: "0000:75:00", Msg: "pid=7, name=python3, Ch 1", Via: tick.ViaKernelLog, SaidPID: 7, SaidName: "python3", PID: 4821, Comm: "python3",
		Burst: seq, At: 2, Root: 172, After: 1500,
		Last: []tick.XidCall{{TID: 4821, Op: testkit.Op("cudaStreamSynchronize"), Before: time.Millisecond, Open: true}, {TID: 4822, Op: testkit.Op("cudaMemcpy"), Before: 2000, Duration: 700, Result: 719}}}
	t.Xids = []tick.Xid{root, hit}
	one := tick.GPU{Time: t.Time, Index: 0, Bus: "0000:75:00.0", UUID: "GPU-1", Name: "NVIDIA H200", Throttle: []string{"software power cap", "idle"},
		MemTotal: Ptr[int64](143771 << 20), MemUsed: Ptr[int64](5 << 20), Busy: Ptr(0.98), MemBusy: Ptr(0.41), ClockSM: Ptr[int64](1815e6), ClockMem: Ptr[int64](3201e6),
		ClockSMMax: Ptr[int64](1980e6), Temperature: Ptr(61.0), Power: Ptr(688.21), PowerLimit: Ptr(700.0), ECCCorrected: Ptr[int64](2), ECCLost: Ptr[int64](0)}
	two := tick.GPU{Time: t.Time, Index: 1, Bus: "0000:76:00.0", UUID: "GPU-2", Name: "NVIDIA A800", MIG: true}
	if seq >= 3 {
		two = tick.GPU{Time: t.Time, Index: -1, Bus: "0000:76:00.0", Lost: true}
	}
	t.GPUs = []tick.GPU{one, two}
}

// tellInference adds reads of two inference servers: one with growth from the second tick on, and
// one that cannot be read.
func tellInference(t *tick.Tick, seq uint64) {
	at := t.Time.UTC().Add(-time.Millisecond)
	one := tick.Inference{Time: at, PID: 4821, Engine: "vLLM", Model: "Qwen/Qwen2.5-7B", URL: "http://localhost:8000/metrics",
		Running: Ptr(float64(seq)), Waiting: Ptr(0.0), KVCache: Ptr(0.25)}
	if seq > 1 {
		one.Since, one.Preemptions, one.PromptTokens, one.GeneratedTokens = at.Add(-time.Second), Ptr(1.0), Ptr(1000.0), Ptr(500.0)
		one.FirstToken = &tick.Durations{Count: 3, Sum: 0.7, Buckets: []tick.DurationBucket{{Over: 0.1, UpTo: 0.25, Count: 2}, {Over: 0.5, Count: 1}}}
		one.Decode = &tick.Durations{Count: 3, Sum: 9.5}
	}
	two := tick.Inference{Time: at, PID: 4822, Engine: "SGLang", URL: "http://localhost:30000/metrics", Why: "the server answered with HTTP status 404", Do: "start SGLang with --enable-metrics"}
	t.Inference = []tick.Inference{one, two}
}

// HostSums returns the host activity of tick seq.
func HostSums(seq uint64) []tick.HostSum {
	disk := tick.HostSum{HostKey: tick.HostKey{Kind: tick.HostDiskRead, PID: 4821, Object: "vda"}, Comm: "python3", Count: 10, Failed: 1, Bytes: seq << 20}
	for range disk.Count {
		disk.NS += 100_000 * seq
		disk.Hist.Add(100_000 * seq)
	}
	return []tick.HostSum{disk,
		{HostKey: tick.HostKey{Kind: tick.HostSignal, PID: 4821, Sender: 711, Object: "SIGSTOP"}, Comm: "cron", Count: 1},
		{HostKey: tick.HostKey{Kind: tick.HostCPUPressure}, NS: 20_000_000},
		{HostKey: tick.HostKey{Kind: 250, Object: "of the future"}, Count: 1}}
}

// SameCalls compares calls, and looks for differences only if they are unequal, since that is slow.
func SameCalls(t *testing.T, want, got []events.Call) {
	t.Helper()
	if !slices.Equal(want, got) {
		t.Errorf("%d calls, want %d; -want +got:\n%.2000s", len(got), len(want), diff.Diff(want, got))
	}
}

// SameWaits compares waits, and looks for differences only if they are unequal, since that is slow.
func SameWaits(t *testing.T, want, got []events.Wait) {
	t.Helper()
	if !slices.Equal(want, got) {
		t.Errorf("%d waits, want %d; -want +got:\n%.2000s", len(got), len(want), diff.Diff(want, got))
	}
}

// Keeper is a sink that keeps its input.
type Keeper struct {
	Calls []events.Call
	Waits []events.Wait
	Ticks []tick.Tick
}

func (k *Keeper) Batch(b *tick.Batch) error {
	k.Calls, k.Waits = append(k.Calls, b.Calls...), append(k.Waits, b.Waits...)
	return nil
}

func (k *Keeper) Tick(t *tick.Tick) error { k.Ticks = append(k.Ticks, *t); return nil }

func (k *Keeper) Close() error { return nil }

func ByOp(a, b tick.Op) int { return cmp.Or(cmp.Compare(a.PID, b.PID), cmp.Compare(a.Op, b.Op)) }

// SameTotals compares what a source fills in; Dur is filled in by the session.
func SameTotals(t *testing.T, want, got *tick.Tick) {
	t.Helper()
	slices.SortFunc(want.Ops, ByOp)
	slices.SortFunc(got.Ops, ByOp)
	ended := func(t tick.Thread) bool { return t.Ended } // of all ticks since the last Totals
	want.Threads, got.Threads = slices.DeleteFunc(want.Threads, ended), slices.DeleteFunc(got.Threads, ended)
	opts := []diff.Option{cmpopts.EquateApproxTime(0),
		cmpopts.IgnoreFields(tick.Op{}, "Last", "Dur", "DurLast"),
		cmpopts.IgnoreFields(tick.Tick{}, "HostSums", "States", "Xids", "GPUs", "Inference", "Time", "Started", "Seq", "Window", "Records", "Final"),
		diff.Comparer(func(a, b *stats.Hist) bool { return *a == *b })}
	if d := diff.Diff(want, got, opts...); d != "" {
		t.Errorf("totals -live +replay:\n%s", d)
	}
}

// SomeStacks returns stacks of all kinds of frames, many of which several stacks share.
func SomeStacks(n int) []events.Stack {
	out := make([]events.Stack, n)
	for i := range out {
		s := &out[i]
		s.ID, s.PID, s.Cut, s.Own = uint32(i+1), uint32(i%5+1), i%7 == 0, i%3 == 0
		for k := range i % 40 {
			s.Frames = append(s.Frames, events.Frame{Kind: events.FrameNative, IP: 0x7f00_0000_0000 + uint64(i%9*1000+k), Offset: uint64(k), Func: fmt.Sprintf("f%d", k), Module: "/lib/libx.so"})
		}
		s.Frames = append(s.Frames, events.Frame{Kind: events.FramePython, Func: "Net.förward", File: "train.py", Line: int32(i%200 + 1)},
			events.Frame{Kind: events.FrameNative, Inline: true, Func: "inlined", File: "x.cc", Line: 3}, events.Frame{Kind: events.FrameGap, Func: "no table"})
	}
	return out
}
