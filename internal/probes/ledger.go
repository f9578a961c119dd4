package probes

import (
	"bytes"
	"errors"
	"fmt"
	"os"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
	"golang.org/x/sys/unix"

	"ingero/internal/bpf"
	"ingero/pkg/events"
)

// ledgerPrograms lists the programs that follow threads through the scheduler.
var ledgerPrograms = []string{
	bpf.IngeroProgOnSwitch, bpf.IngeroProgOnWakeup, bpf.IngeroProgOnWaking, bpf.IngeroProgOnMigrate,
}

// prepareLedger adapts the ledger's programs to this machine, or removes them.
func (t *Tracer) prepareLedger(spec *ebpf.CollectionSpec, types *btf.Cache) error {
	if !t.ledger {
		for _, n := range ledgerPrograms {
			delete(spec.Programs, n)
		}
		return nil
	}
	cpus, err := ebpf.PossibleCPU()
	if err != nil {
		return fmt.Errorf("count the CPUs: %w", err)
	}
	spec.Maps[bpf.IngeroMapCpus].MaxEntries = uint32(cpus)
	kernel, err := types.Kernel()
	if err != nil {
		return fmt.Errorf("read the kernel's BTF: %w", err)
	}
	var files [events.MaxSyscall / 64]uint64
	for nr := range events.MaxSyscall {
		if events.SyscallOf(nr).Row().FD {
			files[nr/64] |= 1 << (nr % 64)
		}
	}
	at := perCPU(kernel)
	for name, offset := range map[string]int64{"preempt_from_rq": at.preempt, "steal_from_rq": at.stolen} {
		if v := spec.Variables[name]; v != nil { // x86 only
			if err := v.Set(offset); err != nil {
				return fmt.Errorf("set %s: %w", name, err)
			}
		}
	}
	if t.allWaits {
		if err := spec.Variables[bpf.IngeroVarLongWait].Set(uint64(1)); err != nil {
			return err
		}
	}
	return errors.Join(spec.Variables[bpf.IngeroVarSwitchHasState].Set(switchHasState(kernel)),
		spec.Variables[bpf.IngeroVarFileCalls].Set(files),
		spec.Variables[bpf.IngeroVarAgentTgid].Set(uint32(os.Getpid())),
		spec.Variables[bpf.IngeroVarFollowWakers].Set(!t.noWakers))
}

// besideQueue has offsets of per-CPU variables from the CPU's run queue, in bytes. 0: none.
type besideQueue struct {
	preempt int64 // preempt count: a separate variable, but from Linux 6.2 to 6.14 a part of pcpu_hot
	stolen  int64 // KVM's account of stolen time
}

// perCPU returns the offsets, 0 for those missing in the kernel's BTF.
func perCPU(kernel *btf.Spec) (out besideQueue) {
	var section *btf.Datasec
	if kernel.TypeByName(".data..percpu", &section) != nil {
		return out
	}
	var queue int64
	for _, v := range section.Vars {
		x, ok := v.Type.(*btf.Var)
		if !ok {
			continue
		}
		at := int64(v.Offset)
		of, _ := x.Type.(*btf.Struct)
		switch {
		case x.Name == "runqueues":
			queue = at
		case x.Name == "__preempt_count":
			out.preempt = at
		case x.Name == "pcpu_hot" && of != nil:
			out.preempt = at + memberOffset(of.Members, "preempt_count")
		case x.Name == "steal_time" && of != nil && of.Name == "kvm_steal_time" && isGuest():
			out.stolen = at + memberOffset(of.Members, "steal")
		}
	}
	for _, at := range []*int64{&out.preempt, &out.stolen} {
		if *at != 0 && queue != 0 {
			*at -= queue
		} else {
			*at = 0
		}
	}
	return out
}

// isGuest reports whether the CPUs are virtual.
func isGuest() bool {
	info, err := os.ReadFile("/proc/cpuinfo")
	return err == nil && bytes.Contains(info, []byte(" hypervisor"))
}

// memberOffset returns the offset of a named member, also in unnamed structs and unions.
func memberOffset(members []btf.Member, name string) int64 {
	for _, m := range members {
		if m.Name == name {
			return int64(m.Offset.Bytes())
		}
		var inner []btf.Member
		switch t := m.Type.(type) {
		case *btf.Struct:
			inner = t.Members
		case *btf.Union:
			inner = t.Members
		}
		if m.Name == "" && len(inner) > 0 {
			if off := memberOffset(inner, name); off > 0 {
				return int64(m.Offset.Bytes()) + off
			}
		}
	}
	return 0
}

// switchHasState reports whether sched_switch passes the state of the leaving thread to its
// programs, as it does since Linux 5.18.
func switchHasState(kernel *btf.Spec) bool {
	return len(arguments(kernel, "sched_switch")) > 3
}

// ThreadState is the kernel's data on a thread: its account, its current state, and its open calls.
// A running thread may change while it is read.
type ThreadState = bpf.IngeroThread

// Threads calls take for every thread with traced calls, and every enrolled thread, which has ended
// waits of such a thread. s is as of now (CLOCK_MONOTONIC ns). Threads retires enrolled threads that
// have not been useful lately.
func (t *Tracer) Threads(take func(tid uint32, s *ThreadState, now uint64)) error {
	const batch = 64
	var (
		cursor ebpf.MapBatchCursor
		tids   [batch]uint32
		states = make([]ThreadState, batch)
		r      = review{keep: t.keepWaker, most: int(t.objects.Threads.MaxEntries()) / 2}
	)
	for {
		var now unix.Timespec
		if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
			return fmt.Errorf("read the clock: %w", err)
		}
		n, err := t.objects.Threads.BatchLookup(&cursor, tids[:], states, nil)
		last := errors.Is(err, ebpf.ErrKeyNotExist)
		if err != nil && !last {
			return fmt.Errorf("read threads: %w", err)
		}
		for i := range n {
			take(tids[i], &states[i], asOf(&states[i], uint64(now.Nano())))
			r.add(tids[i], &states[i], now.Nano())
		}
		if last {
			return t.conclude(&r)
		}
	}
}

// asOf returns the time of a thread's state that was read after begun: begun, or the thread's latest
// event if that is later. At the end of the reading, the thread may be in another state or call: all
// time until then would count for the one that was read, and be wrong by as long as the agent waited
// for a CPU.
func asOf(s *ThreadState, begun uint64) uint64 {
	at := max(begun, s.Clock.Since, s.ReturnedNs)
	for i := range min(s.Depth, uint32(len(s.Open))) {
		at = max(at, s.Open[i].Rec.StartNs)
	}
	return at
}
