package storetest

import (
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"ingero/internal/tick"
	"ingero/pkg/events"
)

// WaitGenerator makes the waits of a job on an overloaded host: threads wait for one another, for
// disks, sockets and the GPU's driver, and then for a CPU that others use.
type WaitGenerator struct {
	r       *rand.Rand
	threads []genWaiter
	hogs    []events.Thread
}

type genWaiter struct {
	pid, tid uint32
	end      int64 // of its last wait
	cpu      uint16
	woken    bool // it waits for a CPU next
}

func NewWaitGenerator(seed uint64) WaitGenerator {
	g := WaitGenerator{r: rand.New(rand.NewPCG(seed, 2))}
	for i := range uint32(24) {
		g.threads = append(g.threads, genWaiter{pid: 4821 + i/12, tid: 5000 + i, cpu: uint16(i % 16)})
	}
	for i := range uint32(6) {
		g.hogs = append(g.hogs, events.Thread{PID: 9000 + i/2, TID: 9000 + i, Parent: 1, Cgroup: 4242, Name: events.NameOf("stress-ng-cpu")})
	}
	return g
}

// reasons are the waits' reasons, each repeated by its frequency.
var reasons = []events.Wait{
	{Reason: events.ReasonLock, Syscall: SyscallOf("futex"), Arg: 0x7f3a_4400_1000},
	{Reason: events.ReasonLock, Syscall: SyscallOf("futex"), Arg: 0x7f3a_4400_2040},
	{Reason: events.ReasonLock, Syscall: SyscallOf("futex"), Arg: 0x7f3a_4400_2040},
	{Reason: events.ReasonPoll, Syscall: SyscallOf("epoll_wait"), Arg: 11, File: events.FileAnon, Flags: events.WaitByIRQ},
	{Reason: events.ReasonGPU, Syscall: SyscallOf("ioctl"), Arg: 7, File: events.FileChar, Dev: 195 << 20, Flags: events.WaitByIRQ},
	{Reason: events.ReasonGPU, Syscall: SyscallOf("poll"), Arg: 0x7ffd_1000_0000, Flags: events.WaitByIRQ},
	{Reason: events.ReasonDisk, Syscall: SyscallOf("pread64"), Arg: 31, File: events.FileRegular, Dev: 259 << 20, Flags: events.WaitByIRQ | events.WaitIO},
	{Reason: events.ReasonSleep, Syscall: SyscallOf("clock_nanosleep"), Flags: events.WaitByIRQ},
}

func SyscallOf(name string) events.Syscall {
	return events.Syscall(slices.IndexFunc(events.Syscalls, func(r events.SyscallRow) bool { return r.Name == name }))
}

// Waits appends n waits that end within a period, ordered by end.
func (g *WaitGenerator) Waits(dst []events.Wait, n int, from time.Time, within time.Duration) []events.Wait {
	step := float64(within) / float64(n+1)
	for i := range n {
		end := from.UnixNano() + int64(step*(float64(i)+g.r.Float64()))
		th := &g.threads[g.r.IntN(len(g.threads))]
		w := events.Wait{PID: th.pid, TID: th.tid, CPU: th.cpu, Op: []events.Op{0, 0, OpSync, OpLaunch, OpCopy}[g.r.IntN(5)]}
		w.Start = max(th.end, end-int64(20e3*math.Exp(5*g.r.Float64())))
		if th.woken {
			w.Start, w.State, w.Who = th.end, events.WaitRunnable, g.hogs[g.r.IntN(len(g.hogs))]
		} else {
			about := reasons[g.r.IntN(len(reasons))]
			w.State, w.Reason, w.Syscall, w.Arg, w.File, w.Dev, w.Flags = events.WaitBlocked, about.Reason, about.Syscall, about.Arg, about.File, about.Dev, about.Flags
			if w.Flags&events.WaitByIRQ == 0 {
				by := &g.threads[g.r.IntN(len(g.threads))]
				w.Who = events.Thread{PID: by.pid, TID: by.tid, Parent: 4000, Start: 90 + by.tid, Cgroup: 777, Name: events.NameOf("pt_data_worker")}
			}
		}
		w.Duration = end - w.Start
		if w.State == events.WaitRunnable {
			if w.Taken = w.Duration; g.r.IntN(3) == 0 {
				w.Taken = w.Duration * 2 / 3
			}
		}
		dst = append(dst, w)
		if w.State == events.WaitRunnable && w.Taken < w.Duration && i+1 < n {
			w.Taken, w.Flags, w.Who = w.Duration-w.Taken, events.WaitPrevious, g.hogs[g.r.IntN(len(g.hogs))]
			dst = append(dst, w)
		}
		th.woken, th.end = !th.woken && g.r.IntN(3) > 0, end
		if g.r.IntN(10) == 0 {
			th.cpu = uint16(g.r.IntN(16))
		}
	}
	return dst
}

// Odd returns a wait with random values in all fields.
func (g *WaitGenerator) Odd() events.Wait {
	u := func() uint64 { return g.r.Uint64() >> g.r.IntN(64) * uint64(g.r.IntN(3)) }
	who := func() (t events.Thread) {
		t = events.Thread{PID: uint32(u()), TID: uint32(u()), Parent: uint32(u()), Start: uint32(u()), Cgroup: u()}
		for i := range t.Name {
			t.Name[i] = byte(u())
		}
		return t
	}
	return events.Wait{Start: int64(u()), Duration: int64(u()), Taken: int64(u()), Arg: u(), Who: who(), PID: uint32(u() % 3), TID: uint32(u()),
		Dev: uint32(u()), Op: events.Op(u()), CPU: uint16(u()), Syscall: events.Syscall(u()), State: events.WaitState(u()),
		Reason: events.Reason(u()), File: events.FileKind(u()), Flags: events.WaitFlags(u()), Hop: uint8(u()), Passed: uint32(u()), Stack: uint32(u()), Own: uint32(u())}
}

// Accounts are threads' accounts that advance with time.
type Accounts map[genThreadKey]*tick.Thread

type genThreadKey struct{ pid, tid uint32 }

// pass advances the accounts to a time. Some threads are active, some keep waiting; every third
// tick one ends, one disappears and one is new.
func (m Accounts) pass(at int64, seq uint64) {
	if len(m) == 0 {
		for i := range uint32(12) {
			m.begin(4821+i/6, 5000+i, at-1e9)
		}
	}
	for k, t := range m {
		if t.Ended || seq%3 == 2 && k.tid == 5001 {
			delete(m, k)
		}
	}
	if seq%3 == 2 {
		if t := m[genThreadKey{4821, 5002}]; t != nil {
			t.Ended = true
		}
		m.begin(4822, 6000+uint32(seq), at-5e8)
	}
	for k, t := range m {
		if t.Until == at { // new, or advanced already
			continue
		}
		d := uint64(at - t.Until)
		t.Until = at
		switch k.tid % 3 {
		case 0: // in a synchronize all the time
			t.InCalls.Blocked += d
			t.Sync.Blocked += d
			if t.Open == nil {
				t.Now = tick.ThreadState{State: events.WaitBlocked, Reason: events.ReasonGPU, Syscall: SyscallOf("ioctl"), File: events.FileChar, Arg: 7, Dev: 195 << 20, CPU: 3, Since: at - int64(d)}
				t.Open = []tick.OpenCall{{Op: OpSync, Start: at - int64(d), Args: [4]uint64{0x55aa_0000}}, {Op: OpCuLaunch, Start: at, Tag: 3, Args: [4]uint64{1, 2, 3, 4}}}
			}
		case 1:
			t.InCalls.OnCPU += d / 2
			t.Between.OnCPU += d / 4
			t.Between.Throttled += d / 8
			t.Between.Runnable += d - d/2 - d/4 - d/8
			t.Now = tick.ThreadState{State: events.WaitRunnable, CPU: uint16(seq), Since: at - int64(seq)}
		default:
			t.Between.Blocked += d
			t.Enrolled = true
		}
	}
}

func (m Accounts) begin(pid, tid uint32, at int64) {
	m[genThreadKey{pid, tid}] = &tick.Thread{PID: pid, TID: tid, Comm: "python3", Since: at, Until: at}
}

// accounts returns a copy, in a tick's order.
func (m Accounts) accounts() []tick.Thread {
	var out []tick.Thread
	for _, t := range m {
		c := *t
		c.Open = slices.Clone(t.Open)
		out = append(out, c)
	}
	slices.SortFunc(out, tick.ByThread)
	return out
}
