package jail

import (
	"fmt"
	"runtime"

	"golang.org/x/sys/unix"
)

// machines has the machines' system calls that make a process and have no flags.
var machines = map[string]struct {
	arch  uint32
	forks []uint32
}{
	"amd64": {unix.AUDIT_ARCH_X86_64, []uint32{57, 58}}, // fork, vfork
	"arm64": {unix.AUDIT_ARCH_AARCH64, nil},
}

// Offsets in struct seccomp_data.
const (
	dataCall = 0
	dataArch = 4
	dataArg  = 16 // the first argument's lower half
)

// x32 marks the system calls of x86's ABI with 32-bit pointers.
const x32 = 1 << 30

// noProcesses forbids new processes, from the next exec on too. Threads are permitted. A C library
// that finds no clone3, whose flags are in memory, uses clone.
func noProcesses() error {
	m, ok := machines[runtime.GOARCH]
	if !ok {
		return fmt.Errorf("not supported on %s", runtime.GOARCH)
	}
	load := func(at uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: at}
	}
	is := func(test uint16, k uint32, yes, no uint8) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_JMP | test | unix.BPF_K, Jt: yes, Jf: no, K: k}
	}
	end := func(result uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: result}
	}
	deny := end(unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM))
	filter := []unix.SockFilter{load(dataArch), is(unix.BPF_JEQ, m.arch, 1, 0), deny,
		load(dataCall), is(unix.BPF_JGE, x32, 0, 1), deny}
	for _, call := range m.forks {
		filter = append(filter, is(unix.BPF_JEQ, call, 0, 1), deny)
	}
	filter = append(filter, is(unix.BPF_JEQ, unix.SYS_CLONE3, 0, 1), end(unix.SECCOMP_RET_ERRNO|uint32(unix.ENOSYS)),
		is(unix.BPF_JEQ, unix.SYS_CLONE, 0, 3), load(dataArg), is(unix.BPF_JSET, unix.CLONE_THREAD, 1, 0), deny,
		end(unix.SECCOMP_RET_ALLOW))
	return install(filter)
}
