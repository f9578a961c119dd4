package decode

import (
	"bytes"
	"fmt"
	"unsafe"

	"ingero/internal/bpf"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

const (
	waitSize   = int(unsafe.Sizeof(bpf.IngeroWaitRecord{}))
	threadSize = int(unsafe.Sizeof(bpf.IngeroThreadRecord{}))

	waitFlags = events.WaitIO | events.WaitByIRQ | events.WaitIdle | events.WaitOthers | events.WaitMoved | events.WaitPrevious
	stopped   = uint8(bpf.IngeroWaitFlagsWAIT_STOPPED)
)

// Record decodes one record of the call ring into the batch: a call, wait, last account, text, NVTX
// call, stack or code object. b is not kept. On error the batch is unchanged.
func Record(to *tick.Batch, b []byte, clock Clock) (err error) {
	if len(b) == 0 {
		return fmt.Errorf("record of 0 bytes: %w", ErrRecord)
	}
	switch bpf.IngeroRecordKind(b[0]) {
	case bpf.IngeroRecordKindRECORD_WAIT:
		to.Waits, err = Waits(to.Waits, b, clock)
	case bpf.IngeroRecordKindRECORD_THREAD:
		to.Ended, err = ended(to.Ended, b, clock)
	case bpf.IngeroRecordKindRECORD_TEXT:
		to.Texts, err = Texts(to.Texts, b, clock)
	case bpf.IngeroRecordKindRECORD_RANGE:
		to.Ranges, err = Ranges(to.Ranges, b, clock)
	case bpf.IngeroRecordKindRECORD_PY_CODE:
		to.PyCodes = append(to.PyCodes, bytes.Clone(b))
	case bpf.IngeroRecordKindRECORD_STACK:
		if to.RawStacks, err = Stacks(to.RawStacks, b, clock); err == nil {
			to.RawStacks[len(to.RawStacks)-1].PyCodes, to.PyCodes = to.PyCodes, nil
		}
	default:
		to.Calls, err = Calls(to.Calls, b, clock)
	}
	return err
}

// Waits decodes one record of a wait and appends it. b is not kept. On error nothing is appended.
func Waits(dst []events.Wait, b []byte, clock Clock) ([]events.Wait, error) {
	if len(b) < waitSize || b[0] != uint8(bpf.IngeroRecordKindRECORD_WAIT) {
		return dst, fmt.Errorf("wait of %d bytes: %w", len(b), ErrRecord)
	}
	r := (*bpf.IngeroWaitRecord)(unsafe.Pointer(&b[0]))
	state, reason := events.WaitState(r.State), events.ReasonUnknown
	if r.State == uint8(bpf.IngeroWaitStateWAIT_STOLEN) {
		state, reason = events.WaitRunnable, events.ReasonHypervisor
	}
	if state < events.WaitRunnable || state > events.WaitBlocked || r.Ns>>62 != 0 || r.TakenNs > r.Ns {
		return dst, fmt.Errorf("wait of state %d and %d ns: %w", r.State, r.Ns, ErrRecord)
	}
	dst = append(dst, events.Wait{
		Start: clock.Wall(r.StartNs), Duration: int64(r.Ns), Taken: int64(r.TakenNs), Who: thread(&r.Who),
		PID: r.Tgid, TID: r.Tid, Op: events.Op(r.Op), CPU: r.Cpu, State: state, Reason: reason, Flags: events.WaitFlags(r.Flags) & waitFlags, Hop: r.Hop,
	})
	if state == events.WaitBlocked {
		w := &dst[len(dst)-1]
		x := threadStateOf(&r.On, r.Flags)
		w.Arg, w.Dev, w.Syscall, w.File, w.Reason, w.Stack, w.Own = x.Arg, x.Dev, x.Syscall, x.File, x.Reason, r.Stack, r.Own
		if w.Reason == events.ReasonGIL {
			w.Passed = r.On.Dev
		}
	}
	return dst, nil
}

func thread(w *bpf.IngeroWho) events.Thread {
	t := events.Thread{PID: w.Tgid, TID: w.Tid, Parent: w.Parent, Start: w.Start, Cgroup: w.Cgroup}
	for i, c := range w.Comm {
		t.Name[i] = byte(c)
	}
	return t
}

// Kinds of files by their mode (S_IFMT), sys/stat.h.
var fileKinds = [16]events.FileKind{
	0: events.FileAnon, 1: events.FilePipe, 2: events.FileChar, 4: events.FileDirectory, 6: events.FileBlock,
	8: events.FileRegular, 12: events.FileSocket,
}

// fileReasons maps kinds of files to the reason of a wait for one.
var fileReasons = map[events.FileKind]events.Reason{
	events.FileRegular: events.ReasonFile, events.FileDirectory: events.ReasonFile, events.FilePipe: events.ReasonPipe,
	events.FileSocket: events.ReasonSocket, events.FileBlock: events.ReasonDisk, events.FileChar: events.ReasonDevice,
	events.FileAnon: events.ReasonPoll,
}

// threadStateOf returns what a thread is blocked on. The order matters: a stop counts whatever the
// thread was about to do, and a device counts more than the system call that led to it.
func threadStateOf(on *bpf.IngeroBlock, flags uint8) tick.ThreadState {
	d := tick.ThreadState{State: events.WaitBlocked, Arg: on.Arg, Syscall: events.SyscallOf(int(on.Syscall))}
	if on.Mode != 0 {
		d.File, d.Dev = fileKinds[on.Mode>>12], on.Dev
	}
	row := d.Syscall.Row()
	switch {
	case flags&stopped != 0:
		d.Reason = events.ReasonStopped
	case on.Syscall < 0:
		d.Reason, d.Arg = events.ReasonFault, 0
	case flags&uint8(bpf.IngeroWaitFlagsWAIT_IO) != 0:
		d.Reason = events.ReasonDisk
	case row.FD && row.Reason == events.ReasonOther && d.File != events.FileNone:
		d.Reason = fileReasons[d.File]
	case flags&uint8(bpf.IngeroWaitFlagsWAIT_GIL) != 0:
		d.Reason = events.ReasonGIL
	default:
		d.Reason = row.Reason
	}
	return d
}

// account converts a kernel account into a thread's times, as of until.
func account(t *tick.Thread, a *bpf.IngeroAccount, until uint64) {
	all := minus(until-min(a.BornNs, until), a.Off)
	t.InCalls = within(minus(a.CallsNs, a.InCalls), all)
	t.Sync = within(minus(a.SyncNs, a.InSync), t.InCalls)
	t.Between = tick.Times{OnCPU: all.OnCPU - t.InCalls.OnCPU, Runnable: all.Runnable - t.InCalls.Runnable,
		Throttled: all.Throttled - t.InCalls.Throttled, Blocked: all.Blocked - t.InCalls.Blocked}
}

// minus splits a time: off is off-CPU, the rest on-CPU. The parts exceed the total only if the
// thread moved on while it was read, so that a wait counts twice: in the account, and as the
// thread's current state. They are cut to the total.
func minus(total uint64, off bpf.IngeroSums) tick.Times {
	t := tick.Times{Throttled: min(off.Throttled, total)}
	t.Blocked = min(off.Blocked, total-t.Throttled)
	t.Runnable = min(off.Runnable, total-t.Throttled-t.Blocked)
	t.OnCPU = total - t.Throttled - t.Blocked - t.Runnable
	return t
}

// within cuts a part to its whole. The part is larger only if the thread moved on between the two
// readings; the next reading corrects that.
func within(part, whole tick.Times) tick.Times {
	return tick.Times{OnCPU: min(part.OnCPU, whole.OnCPU), Runnable: min(part.Runnable, whole.Runnable),
		Throttled: min(part.Throttled, whole.Throttled), Blocked: min(part.Blocked, whole.Blocked)}
}

func less(a, b uint64) uint64 { return a - min(a, b) }

func ended(dst []tick.Thread, b []byte, clock Clock) ([]tick.Thread, error) {
	if len(b) < threadSize {
		return dst, fmt.Errorf("account of %d bytes: %w", len(b), ErrRecord)
	}
	r := (*bpf.IngeroThreadRecord)(unsafe.Pointer(&b[0]))
	t := tick.Thread{PID: r.Tgid, TID: r.Tid, Comm: text(r.Comm), Enrolled: r.Enrolled != 0, Ended: true,
		Since: clock.Wall(r.Account.BornNs), Until: clock.Wall(r.EndNs)}
	account(&t, &r.Account, r.EndNs)
	return append(dst, t), nil
}

// Thread returns a thread's account as of now (CLOCK_MONOTONIC ns), with its current state. That
// state and the open calls count up to now, which is later than all times in s.
func Thread(tid uint32, s *bpf.IngeroThread, now uint64, clock Clock) tick.Thread {
	k := &s.Clock
	t := tick.Thread{PID: s.Tgid, TID: tid, Enrolled: k.Hop != 0 || k.EnrolledFor != 0, Since: clock.Wall(k.Account.BornNs), Until: clock.Wall(now)}
	a := k.Account
	lasted := less(now, k.Since)
	switch t.Now = doing(s, clock); t.Now.State {
	case events.WaitRunnable:
		a.Off.Runnable += lasted
	case events.WaitBlocked:
		a.Off.Blocked += lasted
	}
	depth := min(s.Depth, uint32(len(s.Open)))
	if depth > 0 {
		o := &s.Open[0]
		ns := now - min(o.Rec.StartNs, now)
		off := bpf.IngeroSums{Runnable: less(a.Off.Runnable, o.At.Off.Runnable),
			Throttled: less(a.Off.Throttled, o.At.Off.Throttled), Blocked: less(a.Off.Blocked, o.At.Off.Blocked)}
		a.CallsNs += ns
		addSums(&a.InCalls, off)
		if o.RecipeFlags&uint8(bpf.IngeroRecipeFlagsRECIPE_SYNC) != 0 {
			a.SyncNs += ns
			addSums(&a.InSync, off)
		}
	}
	account(&t, &a, now)
	for i := range depth {
		r := &s.Open[i].Rec
		t.Open = append(t.Open, tick.OpenCall{Op: events.Op(r.Op), Start: clock.Wall(r.StartNs), Args: r.Arg, Tag: r.Tag})
	}
	return t
}

func addSums(to *bpf.IngeroSums, x bpf.IngeroSums) {
	to.Runnable += x.Runnable
	to.Throttled += x.Throttled
	to.Blocked += x.Blocked
}

// doing returns what the thread does now.
func doing(s *bpf.IngeroThread, clock Clock) tick.ThreadState {
	var d tick.ThreadState
	k := &s.Clock
	switch k.State {
	case uint32(bpf.IngeroWaitStateWAIT_BLOCKED):
		d = threadStateOf(&k.On, k.BlockFlags)
	case uint32(bpf.IngeroWaitStateWAIT_RUNNABLE):
		d.State = events.WaitRunnable
	}
	d.CPU, d.Since = uint16(k.Cpu), clock.Wall(k.Since)
	return d
}
