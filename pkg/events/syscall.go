package events

import (
	"fmt"
	"slices"
)

// Syscall identifies a system call independently of its number on this architecture: an index into
// [Syscalls], 0 for none. From 0x8000 on it is a number without a row, on the architecture of the
// recording.
type Syscall uint16

// syscallRaw marks a number without a row.
const syscallRaw Syscall = 0x8000

// SyscallRow is a system call in which a thread can wait.
type SyscallRow struct {
	Name   string
	X86    int  // number on x86-64, -1: none
	ARM64  int  // number on arm64, -1: none
	FD     bool // its first argument is a file descriptor
	Reason Reason
}

// Syscalls are the system calls that waits distinguish. The order is part of the recording format:
// new rows go at the end.
//
// Reason applies to a call on no particular file. For a call with FD, the kind of the file decides.
//
// Source: asm/unistd_64.h and asm-generic/unistd.h of Linux 6.18.
var Syscalls = []SyscallRow{
	{Name: ""},
	{"read", 0, 63, true, ReasonOther},
	{"write", 1, 64, true, ReasonOther},
	{"pread64", 17, 67, true, ReasonOther},
	{"pwrite64", 18, 68, true, ReasonOther},
	{"readv", 19, 65, true, ReasonOther},
	{"writev", 20, 66, true, ReasonOther},
	{"preadv", 295, 69, true, ReasonOther},
	{"pwritev", 296, 70, true, ReasonOther},
	{"preadv2", 327, 286, true, ReasonOther},
	{"pwritev2", 328, 287, true, ReasonOther},
	{"poll", 7, -1, false, ReasonPoll},
	{"ppoll", 271, 73, false, ReasonPoll},
	{"select", 23, -1, false, ReasonPoll},
	{"pselect6", 270, 72, false, ReasonPoll},
	{"epoll_wait", 232, -1, false, ReasonPoll},
	{"epoll_pwait", 281, 22, false, ReasonPoll},
	{"epoll_pwait2", 441, 441, false, ReasonPoll},
	{"futex", 202, 98, false, ReasonLock},
	{"futex_waitv", 449, 449, false, ReasonLock},
	{"futex_wait", 455, 455, false, ReasonLock},
	{"nanosleep", 35, 101, false, ReasonSleep},
	{"clock_nanosleep", 230, 115, false, ReasonSleep},
	{"ioctl", 16, 29, true, ReasonOther},
	{"fsync", 74, 82, true, ReasonFile},
	{"fdatasync", 75, 83, true, ReasonFile},
	{"sync_file_range", 277, 84, true, ReasonFile},
	{"syncfs", 306, 267, true, ReasonFile},
	{"sync", 162, 81, false, ReasonFile},
	{"msync", 26, 227, false, ReasonFile},
	{"recvfrom", 45, 207, true, ReasonSocket},
	{"recvmsg", 47, 212, true, ReasonSocket},
	{"recvmmsg", 299, 243, true, ReasonSocket},
	{"sendto", 44, 206, true, ReasonSocket},
	{"sendmsg", 46, 211, true, ReasonSocket},
	{"sendmmsg", 307, 269, true, ReasonSocket},
	{"accept", 43, 202, true, ReasonSocket},
	{"accept4", 288, 242, true, ReasonSocket},
	{"connect", 42, 203, true, ReasonSocket},
	{"wait4", 61, 260, false, ReasonChild},
	{"waitid", 247, 95, false, ReasonChild},
	{"open", 2, -1, false, ReasonFile},
	{"openat", 257, 56, false, ReasonFile},
	{"openat2", 437, 437, false, ReasonFile},
	{"close", 3, 57, true, ReasonFile},
	{"stat", 4, -1, false, ReasonFile},
	{"lstat", 6, -1, false, ReasonFile},
	{"newfstatat", 262, 79, false, ReasonFile},
	{"statx", 332, 291, false, ReasonFile},
	{"access", 21, -1, false, ReasonFile},
	{"faccessat", 269, 48, false, ReasonFile},
	{"getdents64", 217, 61, true, ReasonFile},
	{"unlink", 87, -1, false, ReasonFile},
	{"unlinkat", 263, 35, false, ReasonFile},
	{"rename", 82, -1, false, ReasonFile},
	{"renameat2", 316, 276, false, ReasonFile},
	{"mkdir", 83, -1, false, ReasonFile},
	{"mkdirat", 258, 34, false, ReasonFile},
	{"ftruncate", 77, 46, true, ReasonFile},
	{"fallocate", 285, 47, true, ReasonFile},
	{"fadvise64", 221, 223, true, ReasonFile},
	{"readahead", 187, 213, true, ReasonFile},
	{"flock", 73, 32, true, ReasonLock},
	{"fcntl", 72, 25, true, ReasonLock},
	{"sendfile", 40, 71, true, ReasonOther},
	{"splice", 275, 76, true, ReasonOther},
	{"copy_file_range", 326, 285, true, ReasonFile},
	{"mmap", 9, 222, false, ReasonMemory},
	{"munmap", 11, 215, false, ReasonMemory},
	{"mprotect", 10, 226, false, ReasonMemory},
	{"madvise", 28, 233, false, ReasonMemory},
	{"mremap", 25, 216, false, ReasonMemory},
	{"brk", 12, 214, false, ReasonMemory},
	{"mlock", 149, 228, false, ReasonMemory},
	{"mbind", 237, 235, false, ReasonMemory},
	{"process_madvise", 440, 440, false, ReasonMemory},
	{"pause", 34, -1, false, ReasonSleep},
	{"rt_sigsuspend", 130, 133, false, ReasonSleep},
	{"rt_sigtimedwait", 128, 137, false, ReasonSleep},
	{"sched_yield", 24, 124, false, ReasonOther},
	{"io_getevents", 208, 4, false, ReasonDisk},
	{"io_uring_enter", 426, 426, false, ReasonPoll},
	{"semop", 65, 193, false, ReasonLock},
	{"semtimedop", 220, 192, false, ReasonLock},
	{"msgrcv", 70, 188, false, ReasonLock},
	{"mq_timedreceive", 243, 183, false, ReasonLock},
	{"restart_syscall", 219, 128, false, ReasonSleep},
	{"execve", 59, 221, false, ReasonFile},
	{"clone", 56, 220, false, ReasonMemory},
	{"clone3", 435, 435, false, ReasonMemory},
	{"fork", 57, -1, false, ReasonMemory},
	{"vfork", 58, -1, false, ReasonChild},
	{"exit_group", 231, 94, false, ReasonOther},
	{"ptrace", 101, 117, false, ReasonStopped},
	{"membarrier", 324, 283, false, ReasonOther},
	{"getrandom", 318, 278, false, ReasonOther},
	{"msgsnd", 69, 189, false, ReasonOther},
	{"mq_timedsend", 242, 182, false, ReasonOther},
	{"io_pgetevents", 333, 292, false, ReasonDisk},
}

// SyscallOf returns the system call with a number on this architecture. A negative number is none.
func SyscallOf(nr int) Syscall {
	switch {
	case nr < 0 || nr >= int(syscallRaw):
		return 0
	case nr < len(syscallByNumber) && syscallByNumber[nr] != 0:
		return syscallByNumber[nr]
	}
	return syscallRaw | Syscall(nr)
}

// Row returns the row of the call, or an unnamed row for a number without one.
func (s Syscall) Row() *SyscallRow {
	if int(s) < len(Syscalls) {
		return &Syscalls[s]
	}
	return &SyscallRow{X86: -1, ARM64: -1, Reason: ReasonOther}
}

// Accepts reports whether the call waits for a client to connect.
func (s Syscall) Accepts() bool {
	name := s.Row().Name
	return name == "accept" || name == "accept4"
}

// Sends reports whether the call sends data, and so waits until another thread takes some.
func (s Syscall) Sends() bool { return sends[s] }

// Reads reports whether the call reads from a file descriptor.
func (s Syscall) Reads() bool { return reads[s] }

var (
	sends = named("write", "pwrite64", "writev", "pwritev", "pwritev2", "sendto", "sendmsg", "sendmmsg", "sendfile", "msgsnd", "mq_timedsend")
	reads = named("read", "pread64", "readv", "preadv", "preadv2")
)

func named(names ...string) map[Syscall]bool {
	set := map[Syscall]bool{}
	for i := range Syscalls {
		if slices.Contains(names, Syscalls[i].Name) {
			set[Syscall(i)] = true
		}
	}
	return set
}

// String returns the call's name, "" for none, "syscall 400" for one without a row.
func (s Syscall) String() string {
	if s&syscallRaw != 0 {
		return fmt.Sprintf("syscall %d", s&^syscallRaw)
	}
	return s.Row().Name
}

// MaxSyscall bounds the numbers of the rows, on any architecture.
const MaxSyscall = 512

// syscallByNumber maps this architecture's numbers to Syscalls.
var syscallByNumber = func() (t [MaxSyscall]Syscall) {
	for i, r := range Syscalls {
		if nr := r.number(); i > 0 && nr >= 0 {
			t[nr] = Syscall(i)
		}
	}
	return t
}()
