//go:build measure

package ledger

import (
	"errors"
	"fmt"
	"os"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"ingero/internal/testkit"
)

// A machine can have threads that its kernel hides from BPF programs, such as a hypervisor's agent.
// Then any ledger misses the switches to and from such a thread, and the wake-ups while it runs.
// So a separate, minimal program counts the visible events of the thread.

// The witness's counters, in memory shared with the thread: the thread to watch, then switches from
// it, switches to it, and its wake-ups.
const witnessed = 4 * 8

// count returns a program that increments a counter if a tracepoint's argument, a task, is the
// watched thread.
func count(m *ebpf.Map, pid int32, args map[int16]int16) asm.Instructions {
	code := asm.Instructions{asm.Mov.Reg(asm.R6, asm.R1), asm.LoadMapValue(asm.R7, m.FD(), 0)}
	for arg, counter := range args {
		next := fmt.Sprintf("after%d", arg)
		code = append(code,
			asm.Mov.Reg(asm.R1, asm.R10), asm.Add.Imm(asm.R1, -8), asm.Mov.Imm(asm.R2, 4),
			asm.LoadMem(asm.R3, asm.R6, arg*8, asm.DWord), asm.Add.Imm(asm.R3, pid), asm.FnProbeReadKernel.Call(),
			asm.LoadMem(asm.R1, asm.R10, -8, asm.Word), asm.LoadMem(asm.R2, asm.R7, 0, asm.DWord),
			asm.JNE.Reg(asm.R1, asm.R2, next),
			asm.Mov.Imm(asm.R1, 1), asm.StoreXAdd(asm.R7, asm.R1, asm.DWord),
		)
		code[len(code)-1].Offset = counter * 8
		code = append(code, asm.Mov.Imm(asm.R0, 0).WithSymbol(next))
	}
	return append(code, asm.Return())
}

// newWitness attaches the counters and returns a file to map them from.
func newWitness(t testing.TB) *os.File {
	t.Helper()
	testkit.NeedBPF(t)
	m, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: witnessed, MaxEntries: 1, Flags: unix.BPF_F_MMAPABLE})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.Close() })
	pid, err := pidOffset()
	if err != nil {
		t.Fatal(err)
	}
	for event, args := range map[string]map[int16]int16{"sched_switch": {1: 1, 2: 2}, "sched_wakeup": {0: 3}} {
		p, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.RawTracepoint, License: "GPL", Instructions: count(m, pid, args)})
		if err != nil {
			t.Fatalf("%+v", err)
		}
		l, err := link.AttachRawTracepoint(link.RawTracepointOptions{Name: event, Program: p})
		if err = errors.Join(err, p.Close()); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = l.Close() })
	}
	fd, err := unix.FcntlInt(uintptr(m.FD()), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	f := os.NewFile(uintptr(fd), "witness")
	t.Cleanup(func() { _ = f.Close() })
	return f
}

// pidOffset returns the offset of a task's thread id.
func pidOffset() (int32, error) {
	kernel, err := btf.LoadKernelSpec()
	if err != nil {
		return 0, err
	}
	var task *btf.Struct
	if err := kernel.TypeByName("task_struct", &task); err != nil {
		return 0, err
	}
	for _, m := range task.Members {
		if m.Name == "pid" {
			return int32(m.Offset.Bytes()), nil
		}
	}
	return 0, errors.New("a task has no pid")
}
