package store

import (
	"math/rand/v2"
	"time"

	"ingero/internal/stats"
	"ingero/internal/tick"
	"ingero/internal/track"
	"ingero/pkg/events"
)

// began is the start of the tests' recordings.
var began = time.Date(2026, 11, 21, 14, 41, 0, 0, time.UTC)

func testSession() Session {
	return Session{ID: "gpu-7-test", Node: "gpu-7", Started: began, MonoOffset: 1_795_000_000_123_456_789,
		Version: "1.0.0", Kernel: "6.18.0", Mode: "trace", Target: "pid 4821 (python3)", PID: 99}
}

// generator makes the calls of a training loop: launches with their driver calls folded in, copies,
// a synchronize per step, now and then an allocation.
type generator struct {
	r       *rand.Rand
	threads []genThread
	n       int
	waiting waitGenerator
}

type genThread struct {
	pid, tid uint32
	now      int64 // return of its last outermost call
}

func newGenerator(seed uint64) *generator {
	g := &generator{r: rand.New(rand.NewPCG(seed, 1)), waiting: newWaitGenerator(seed)}
	for i := range uint32(4) {
		g.threads = append(g.threads, genThread{pid: 4821 + i/2, tid: 5000 + i, now: began.UnixNano() + int64(i)*1000})
	}
	return g
}

func op(name string) events.Op {
	o, ok := events.OpByName(name)
	if !ok {
		panic(name)
	}
	return o
}

var (
	opLaunch   = op("cudaLaunchKernel")
	opCuLaunch = op("cuLaunchKernel")
	opCopy     = op("cudaMemcpyAsync")
	opSync     = op("cudaStreamSynchronize")
	opMalloc   = op("cudaMalloc")
)

// calls appends n or n+1 calls.
func (g *generator) calls(dst []events.Call, n int) []events.Call {
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
			c.Op, c.Duration, c.Args[0] = opSync, 2e6+g.r.Int64N(1e5), 0x55aa_0000
			c.Runnable = int64(g.r.IntN(2)) * g.r.Int64N(1e5)
			c.Blocked = c.Duration / 2
		case k >= 20:
			c.Op, c.Duration, c.Tag = opCopy, 3000+g.r.Int64N(2000), 1
			c.Args = [4]uint64{1 << 20, 0x7f00_0000_0000 + uint64(g.n)*4096, 0x5500_0000_0000, 0x55aa_0000}
		case k == 19 && g.r.IntN(20) == 0:
			c.Op, c.Duration, c.Result, c.Flags = opMalloc, 90_000, 2, events.CallFailed
			c.Args = [4]uint64{1 << 30}
		default:
			c.Op, c.Duration = opLaunch, int64(4000+600*g.r.ExpFloat64())
			c.Args = [4]uint64{0x4000_0000 + uint64(k)*64, 0x55aa_0000, events.PackDim3(128, 1, 1), events.PackDim3(256, 1, 1)}
		}
		c.OnCPU = c.Duration - c.Runnable - c.Blocked
		th.now = c.End()
		dst = append(dst, c)
		if c.Op == opLaunch {
			in := events.Call{Start: c.Start, Args: c.Args, PID: c.PID, TID: c.TID, Weight: 1, Op: opCuLaunch, Parent: opLaunch, Device: c.Device,
				Flags: events.CallNested | events.CallUnmeasured | events.CallInherited}
			dst = append(dst, in)
		}
	}
	return dst
}

// odd returns a call with random values in all fields.
func (g *generator) odd() events.Call {
	u := func() uint64 { return g.r.Uint64() >> g.r.IntN(64) }
	i := func() int64 { return int64(g.r.Uint64()) >> g.r.IntN(64) }
	return events.Call{Start: i(), Duration: i(), OnCPU: i(), Runnable: i(), Throttled: i() * int64(g.r.IntN(2)), Blocked: i(),
		Gap: i(), GapOnCPU: i(), GapRunnable: i(), GapThrottled: i() * int64(g.r.IntN(2)), GapBlocked: i(), Args: [4]uint64{u(), u(), u(), u()},
		PID: uint32(u()), TID: uint32(u()), Tag: uint32(u()), Result: int32(i()), Weight: uint32(u()), Stack: uint32(u()),
		Op: events.Op(u()), Parent: events.Op(u()), Flags: events.CallFlags(u()), Device: int16(u())}
}

// kernel counts calls for ticks, as the kernel does.
type kernel struct {
	ops     map[opKey]*tick.Op
	threads genAccounts
	track   *track.Tracker
}

func newKernel() *kernel {
	return &kernel{ops: map[opKey]*tick.Op{}, threads: genAccounts{}, track: track.New()}
}

func (k *kernel) op(pid uint32, o events.Op) *tick.Op {
	x := k.ops[opKey{pid, o}]
	if x == nil {
		x = &tick.Op{PID: pid, Op: o, Hist: &stats.Hist{}, Dur: &stats.Sketch{}, DurLast: &stats.Sketch{}}
		k.ops[opKey{pid, o}] = x
	}
	return x
}

func (k *kernel) see(calls []events.Call) {
	k.track.Batch(calls, nil)
	for i := range calls {
		c := &calls[i]
		o := k.op(c.PID, c.Op)
		o.Sum.Calls++
		if c.Flags&events.CallNested != 0 {
			o.Sum.Nested++
		}
		if c.Flags&events.CallUnmeasured != 0 {
			o.Sum.Unmeasured++
			continue
		}
		o.Sum.Done++
		if c.Flags&events.CallFailed != 0 {
			o.Sum.Errors++
		}
		o.Sum.Total += uint64(c.Duration)
		o.Sum.OnCPU += uint64(c.OnCPU)
		o.Sum.Runnable += uint64(c.Runnable)
		o.Hist.Record(c.Duration, 1)
		o.Dur.Add(c.Duration, 1)
	}
}

// tick returns a copy of the current state.
func (k *kernel) tick(seq uint64, at time.Time, final bool) *tick.Tick {
	k.threads.pass(at.UnixNano(), seq)
	t := &tick.Tick{Time: at, Started: began, Seq: seq, Window: time.Second, Final: final, Records: seq * 100,
		Self:      tick.Self{CPU: time.Duration(seq) * time.Millisecond, RSS: 30 << 20},
		Host:      tick.Host{CPU: 0.47, CPUs: 8, MemTotal: 64 << 30, MemAvail: 11 << 30, Load: [3]float64{3.25, 2, 1}},
		Drops:     []tick.Drop{{Reason: "ring-full", Count: seq}, {Reason: "thinned"}},
		Libraries: []tick.Library{{Path: "/usr/lib/libcudart.so.12", Lib: events.LibCudart, BuildID: "ab12", Probes: 32}},
		Reports:   []tick.Report{{Kind: "missing-symbol", Object: "cuLaunchGrid", Why: "libcuda.so.1 has none"}},
	}
	t.Threads = k.threads.accounts()
	for _, o := range k.ops {
		h := *o.Hist
		c := *o
		c.Hist, c.Dur, c.DurLast = &h, o.Dur.Clone(), o.DurLast.Clone()
		t.Ops = append(t.Ops, c)
	}
	for _, pid := range []uint32{4821, 4822} {
		p := tick.Process{PID: pid, PPID: 1, NSPID: pid, UID: 1000, Comm: "python3", Exe: "/usr/bin/python3", Cgroup: "/user.slice",
			Started: began.Add(-time.Minute), Mapped: began, Attached: began.Add(30 * time.Millisecond)}
		if final {
			p.Ended = at
		}
		t.Processes = append(t.Processes, p)
	}
	t.States = k.track.Tick(t.Processes, t.Ops)
	t.HostSums = hostSums(seq)
	tellGPUs(t, seq)
	t.Others = []tick.Process{{PID: 711, PPID: 1, NSPID: 711, Comm: "cron", Cgroup: "/system.slice/cron.service", Started: began.Add(-time.Hour)}}
	return t
}

func ptr[T any](v T) *T { return &v }

// tellGPUs adds a burst of faults, and two GPUs, one of which is lost in the third tick.
func tellGPUs(t *tick.Tick, seq uint64) {
	at := t.Time.UnixNano() - int64(time.Second)
	root := tick.Xid{Time: at, Code: 172, Bus: "0000:75:00", Msg: "SM ICACHE", Via: tick.ViaTracepoint, Burst: seq, At: 1, Root: 172}
	hit := tick.Xid{Time: at + 1500, Code: 13, Bus: "0000:75:00", Msg: "pid=7, name=python3, Ch 1", Via: tick.ViaKernelLog, SaidPID: 7, SaidName: "python3", PID: 4821, Comm: "python3",
		Burst: seq, At: 2, Root: 172, After: 1500,
		Last: []tick.XidCall{{TID: 4821, Op: op("cudaStreamSynchronize"), Before: time.Millisecond, Open: true}, {TID: 4822, Op: op("cudaMemcpy"), Before: 2000, Duration: 700, Result: 719}}}
	t.Xids = []tick.Xid{root, hit}
	one := tick.GPU{Time: t.Time, Index: 0, Bus: "0000:75:00.0", UUID: "GPU-1", Name: "NVIDIA H200", Throttle: []string{"software power cap", "idle"},
		MemTotal: ptr[int64](143771 << 20), MemUsed: ptr[int64](5 << 20), Busy: ptr(0.98), MemBusy: ptr(0.41), ClockSM: ptr[int64](1815e6), ClockMem: ptr[int64](3201e6),
		ClockSMMax: ptr[int64](1980e6), Temperature: ptr(61.0), Power: ptr(688.21), PowerLimit: ptr(700.0), ECCCorrected: ptr[int64](2), ECCLost: ptr[int64](0)}
	two := tick.GPU{Time: t.Time, Index: 1, Bus: "0000:76:00.0", UUID: "GPU-2", Name: "NVIDIA A800", MIG: true}
	if seq >= 3 {
		two = tick.GPU{Time: t.Time, Index: -1, Bus: "0000:76:00.0", Lost: true}
	}
	t.GPUs = []tick.GPU{one, two}
}
