package decode

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"ingero/internal/bpf"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

func TestWaitsAgreeWithTheKernel(t *testing.T) {
	for c, g := range map[bpf.IngeroWaitState]events.WaitState{
		bpf.IngeroWaitStateWAIT_RUNNABLE:  events.WaitRunnable,
		bpf.IngeroWaitStateWAIT_THROTTLED: events.WaitThrottled,
		bpf.IngeroWaitStateWAIT_BLOCKED:   events.WaitBlocked,
	} {
		if uint8(c) != uint8(g) {
			t.Errorf("state %v: kernel %d, Go %d", g, c, g)
		}
	}
	for c, g := range map[bpf.IngeroWaitFlags]events.WaitFlags{
		bpf.IngeroWaitFlagsWAIT_IO:       events.WaitIO,
		bpf.IngeroWaitFlagsWAIT_BY_IRQ:   events.WaitByIRQ,
		bpf.IngeroWaitFlagsWAIT_IDLE:     events.WaitIdle,
		bpf.IngeroWaitFlagsWAIT_OTHERS:   events.WaitOthers,
		bpf.IngeroWaitFlagsWAIT_MOVED:    events.WaitMoved,
		bpf.IngeroWaitFlagsWAIT_PREVIOUS: events.WaitPrevious,
	} {
		if uint8(c) != uint8(g) {
			t.Errorf("flag %b: kernel %d, Go %d", g, c, g)
		}
	}
}

// number returns a system call's number on this architecture.
func number(t *testing.T, name string) int16 {
	t.Helper()
	for nr := range events.MaxSyscall {
		if events.SyscallOf(nr).String() == name {
			return int16(nr)
		}
	}
	t.Fatalf("no system call %s", name)
	return 0
}

// Modes of files (sys/stat.h).
const (
	fifo, chr, dir, blk, reg, sock = 1 << 12, 2 << 12, 4 << 12, 6 << 12, 8 << 12, 12 << 12
)

func TestReason(t *testing.T) {
	const io, stop = uint8(bpf.IngeroWaitFlagsWAIT_IO), uint8(bpf.IngeroWaitFlagsWAIT_STOPPED)
	for _, tt := range []struct {
		call  string
		mode  uint16
		dev   uint32
		flags uint8
		want  events.Reason
		file  events.FileKind
	}{
		{"futex", 0, 0, 0, events.ReasonLock, 0},
		{"clock_nanosleep", 0, 0, 0, events.ReasonSleep, 0},
		{"epoll_pwait", 0, 0, 0, events.ReasonPoll, 0},
		{"read", fifo | 0o600, 5, 0, events.ReasonPipe, events.FilePipe},
		{"read", sock | 0o777, 5, 0, events.ReasonSocket, events.FileSocket},
		{"read", reg | 0o644, 5, 0, events.ReasonFile, events.FileRegular},
		{"read", reg | 0o644, 5, io, events.ReasonDisk, events.FileRegular},
		{"read", blk | 0o600, 5, 0, events.ReasonDisk, events.FileBlock},
		{"read", 0o600, 5, 0, events.ReasonPoll, events.FileAnon},
		{"read", 0, 0, 0, events.ReasonOther, 0},
		{"fsync", reg | 0o644, 5, 0, events.ReasonFile, events.FileRegular},
		{"flock", reg | 0o644, 5, 0, events.ReasonLock, events.FileRegular},
		{"fcntl", reg | 0o644, 5, 0, events.ReasonLock, events.FileRegular},
		{"getdents64", dir | 0o755, 5, 0, events.ReasonFile, events.FileDirectory},
		{"recvmsg", sock, 5, 0, events.ReasonSocket, events.FileSocket},
		{"ioctl", chr | 0o666, 5 << 20, 0, events.ReasonDevice, events.FileChar},
		{"mmap", 0, 0, 0, events.ReasonMemory, 0},
		{"", 0, 0, 0, events.ReasonFault, 0},
		{"", 0, 0, io, events.ReasonFault, 0},
		{"clock_nanosleep", 0, 0, stop, events.ReasonStopped, 0},
		{"", 0, 0, stop, events.ReasonStopped, 0},
	} {
		on := bpf.IngeroBlock{Arg: 7, Dev: tt.dev, Mode: tt.mode, Syscall: -1}
		if tt.call != "" {
			on.Syscall = number(t, tt.call)
		}
		got := threadStateOf(&on, tt.flags)
		if got.Reason != tt.want || got.File != tt.file || got.Syscall.String() != tt.call {
			t.Errorf("%q mode %o flags %b: %v on %q in %q, want %v on %q", tt.call, tt.mode, tt.flags,
				got.Reason, got.File, got.Syscall, tt.want, tt.file)
		}
	}
}

func TestWait(t *testing.T) {
	who := bpf.IngeroWho{Tid: 3, Tgid: 4, Parent: 5, Cgroup: 6, Comm: [16]int8{'h', 'o', 'g'}}
	runnable := bpf.IngeroWaitRecord{
		Kind: uint8(bpf.IngeroRecordKindRECORD_WAIT), State: 1, Flags: 32, Op: 0x0101, Cpu: 2, Tgid: 10, Tid: 11,
		StartNs: 5, Ns: 100, TakenNs: 60, Who: who,
	}
	blocked := runnable
	blocked.State, blocked.Flags, blocked.TakenNs = 3, 1, 0
	blocked.On = bpf.IngeroBlock{Arg: 9, Dev: 8, Mode: reg, Syscall: number(t, "fsync")}
	lock := blocked
	lock.Flags, lock.On = uint8(bpf.IngeroWaitFlagsWAIT_GIL), bpf.IngeroBlock{Arg: 9, Dev: 8, Syscall: number(t, "futex")}
	futex := lock
	futex.Flags, futex.Stack, futex.Own = 0, 6, 7
	odd := runnable
	odd.TakenNs = 101
	stolen := bpf.IngeroWaitRecord{Kind: runnable.Kind, State: uint8(bpf.IngeroWaitStateWAIT_STOLEN), Cpu: 2, Tgid: 10, Tid: 11, StartNs: 5, Ns: 100, TakenNs: 100}
	unknown := stolen
	unknown.State++
	stateless := runnable
	stateless.State = 0
	by := events.Thread{PID: 4, TID: 3, Parent: 5, Cgroup: 6, Name: events.NameOf("hog")}
	for _, tt := range []struct {
		name string
		in   []byte
		want events.Wait
		err  error
	}{
		{"runnable", raw(&runnable), events.Wait{Start: 1005, Duration: 100, Taken: 60, Who: by, PID: 10, TID: 11,
			Op: 0x0101, CPU: 2, State: events.WaitRunnable, Flags: events.WaitPrevious}, nil},
		{"blocked", raw(&blocked), events.Wait{Start: 1005, Duration: 100, Arg: 9, Who: by, PID: 10, TID: 11, Dev: 8,
			Op: 0x0101, CPU: 2, Syscall: events.SyscallOf(int(number(t, "fsync"))), State: events.WaitBlocked,
			Reason: events.ReasonDisk, File: events.FileRegular, Flags: events.WaitIO}, nil},
		{"for the GIL", raw(&lock), events.Wait{Start: 1005, Duration: 100, Arg: 9, Who: by, PID: 10, TID: 11, Passed: 8,
			Op: 0x0101, CPU: 2, Syscall: events.SyscallOf(int(number(t, "futex"))), State: events.WaitBlocked, Reason: events.ReasonGIL}, nil},
		{"for a lock", raw(&futex), events.Wait{Start: 1005, Duration: 100, Arg: 9, Who: by, PID: 10, TID: 11,
			Op: 0x0101, CPU: 2, Syscall: events.SyscallOf(int(number(t, "futex"))), State: events.WaitBlocked, Reason: events.ReasonLock, Stack: 6, Own: 7}, nil},
		{"short", raw(&runnable)[:95], events.Wait{}, ErrRecord},
		{"more taken than waited", raw(&odd), events.Wait{}, ErrRecord},
		{"stolen", raw(&stolen), events.Wait{Start: 1005, Duration: 100, Taken: 100, PID: 10, TID: 11, CPU: 2,
			State: events.WaitRunnable, Reason: events.ReasonHypervisor}, nil},
		{"a state that is not known", raw(&unknown), events.Wait{}, ErrRecord},
		{"no state", raw(&stateless), events.Wait{}, ErrRecord},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var b tick.Batch
			err := Record(&b, tt.in, Clock{Offset: 1000})
			if !errors.Is(err, tt.err) {
				t.Fatalf("error = %v, want %v", err, tt.err)
			}
			want := tick.Batch{Waits: []events.Wait{tt.want}}
			if err != nil {
				want = tick.Batch{}
			}
			if diff := cmp.Diff(want, b); diff != "" {
				t.Errorf("batch (-want +got):\n%s", diff)
			}
		})
	}
}

// A thread's times are those of its account, plus its current state up to now.
func TestThread(t *testing.T) {
	s := bpf.IngeroThread{Tgid: 10, Depth: 1}
	s.Clock.Account = bpf.IngeroAccount{BornNs: 1000, CallsNs: 5000, SyncNs: 2000,
		Off:     bpf.IngeroSums{Runnable: 700, Throttled: 60, Blocked: 900},
		InCalls: bpf.IngeroSums{Runnable: 500, Throttled: 50, Blocked: 400},
		InSync:  bpf.IngeroSums{Runnable: 100, Blocked: 300}}
	s.Clock.Since, s.Clock.State, s.Clock.Cpu = 11000, uint32(bpf.IngeroWaitStateWAIT_BLOCKED), 3
	s.Clock.On = bpf.IngeroBlock{Arg: 9, Syscall: number(t, "futex")}
	s.Open[0].Rec.Op, s.Open[0].Rec.StartNs, s.Open[0].Rec.Arg[0] = 0x0101, 10000, 7
	s.Open[0].RecipeFlags = uint8(bpf.IngeroRecipeFlagsRECIPE_SYNC)
	s.Open[0].At.Off = bpf.IngeroSums{Runnable: 650, Throttled: 60, Blocked: 900}
	got := Thread(11, &s, 13000, Clock{Offset: 1})
	want := tick.Thread{PID: 10, TID: 11, Since: 1001, Until: 13001,
		// Calls: 5000 closed, 3000 open; in the open one 50 runnable, 2000 blocked.
		InCalls: tick.Times{OnCPU: 8000 - 550 - 50 - 2400, Runnable: 550, Throttled: 50, Blocked: 2400},
		Between: tick.Times{OnCPU: 4000 - 150 - 10 - 500, Runnable: 150, Throttled: 10, Blocked: 500},
		Sync:    tick.Times{OnCPU: 5000 - 150 - 2300, Runnable: 150, Blocked: 2300},
		Now: tick.ThreadState{State: events.WaitBlocked, Reason: events.ReasonLock, Syscall: events.SyscallOf(int(number(t, "futex"))),
			Arg: 9, CPU: 3, Since: 11001},
		Open: []tick.OpenCall{{Op: 0x0101, Start: 10001, Args: [4]uint64{7}}}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("thread (-want +got):\n%s", diff)
	}
	if sum := got.InCalls.Total() + got.Between.Total(); sum != uint64(got.Until-got.Since) {
		t.Errorf("the parts are %d ns, the time is %d ns", sum, got.Until-got.Since)
	}
}

// If a thread moved on while it was read, and its calls exceed its total, its times are cut to its
// lifetime.
func TestThreadThatMovedOn(t *testing.T) {
	s := bpf.IngeroThread{Tgid: 10}
	s.Clock.Since = 9000
	s.Clock.Account = bpf.IngeroAccount{BornNs: 1000, CallsNs: 5000, SyncNs: 5100,
		Off: bpf.IngeroSums{Blocked: 900}, InCalls: bpf.IngeroSums{Blocked: 950}, InSync: bpf.IngeroSums{Blocked: 980}}
	got := Thread(11, &s, 10000, Clock{})
	if sum := got.InCalls.Total() + got.Between.Total(); sum != 9000 {
		t.Errorf("the parts are %d ns, the time is 9000 ns: %+v", sum, got)
	}
	if got.Sync != got.InCalls {
		t.Errorf("in calls that wait %+v, in all calls %+v", got.Sync, got.InCalls)
	}
}

// If a thread got a CPU while it was read, so that its last wait counts twice, its times are cut to
// its lifetime.
func TestWaitCountedTwice(t *testing.T) {
	s := bpf.IngeroThread{Tgid: 10}
	s.Clock.Since, s.Clock.State = 9400, uint32(bpf.IngeroWaitStateWAIT_RUNNABLE)
	s.Clock.Account = bpf.IngeroAccount{BornNs: 1000, Off: bpf.IngeroSums{Runnable: 580, Throttled: 20, Blocked: 8100}}
	want := tick.Times{Runnable: 880, Throttled: 20, Blocked: 8100}
	if got := Thread(11, &s, 10000, Clock{}); got.Between != want {
		t.Errorf("%+v, want %+v", got.Between, want)
	}
}

func TestEnded(t *testing.T) {
	r := bpf.IngeroThreadRecord{Kind: uint8(bpf.IngeroRecordKindRECORD_THREAD), Enrolled: 1, Tgid: 10, Tid: 11, EndNs: 2000,
		Account: bpf.IngeroAccount{BornNs: 500, Off: bpf.IngeroSums{Blocked: 600}}, Comm: [16]int8{'x'}}
	var b tick.Batch
	if err := Record(&b, raw(&r), Clock{}); err != nil {
		t.Fatal(err)
	}
	want := []tick.Thread{{PID: 10, TID: 11, Comm: "x", Enrolled: true, Ended: true, Since: 500, Until: 2000,
		Between: tick.Times{OnCPU: 900, Blocked: 600}}}
	if diff := cmp.Diff(want, b.Ended); diff != "" {
		t.Errorf("ended (-want +got):\n%s", diff)
	}
	if err := Record(&b, raw(&r)[:100], Clock{}); !errors.Is(err, ErrRecord) {
		t.Errorf("error = %v, want %v", err, ErrRecord)
	}
}

func FuzzRecord(f *testing.F) {
	wait := bpf.IngeroWaitRecord{Kind: uint8(bpf.IngeroRecordKindRECORD_WAIT), State: 3, Ns: 5}
	ended := bpf.IngeroThreadRecord{Kind: uint8(bpf.IngeroRecordKindRECORD_THREAD)}
	f.Add(raw(&wait))
	f.Add(raw(&ended))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		var batch tick.Batch
		if err := Record(&batch, b, Clock{Offset: 1}); err != nil {
			if len(batch.Calls)+len(batch.Waits)+len(batch.Ended)+len(batch.Texts)+len(batch.Ranges)+len(batch.RawStacks) > 0 {
				t.Errorf("error %v, and yet %+v", err, batch)
			}
			return
		}
		for _, w := range batch.Waits {
			if w.Duration < 0 || w.Taken < 0 || w.Taken > w.Duration || w.State == 0 {
				t.Errorf("wait %+v", w)
			}
		}
	})
}

func BenchmarkWaits(b *testing.B) {
	rec := bpf.IngeroWaitRecord{Kind: uint8(bpf.IngeroRecordKindRECORD_WAIT), State: 3, Ns: 5000, On: bpf.IngeroBlock{Syscall: 202}}
	in := raw(&rec)
	waits := make([]events.Wait, 0, 2)
	b.ReportAllocs()
	for b.Loop() {
		var err error
		if waits, err = Waits(waits[:0], in, Clock{}); err != nil {
			b.Fatal(err)
		}
	}
}
