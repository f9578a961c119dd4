package jail

import (
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Enter turns the process into the program of Start, if Start has started it; then it does not
// return. Call it first in main, before anything else runs.
func Enter() {
	if len(os.Args) != 2 || os.Args[0] != name {
		return
	}
	runtime.LockOSThread() // the thread that drops privileges must be the one that execs
	fmt.Fprintln(os.Stderr, enter(os.Args[1]))
	os.Exit(127)
}

// enter drops all privileges and execs the program. It returns why it cannot.
func enter(text string) error {
	var o order
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		return err
	}
	for _, step := range []struct {
		what string
		do   func() error
	}{
		{"see other files no more", below},
		{"be bounded", func() error { return bounded(o.Seconds) }},
		{"give up capabilities for good", giveUp},
		{"be somebody else", func() error { return become(o.UID, o.GID) }},
		{"give up capabilities", noCapabilities},
		{"make no processes", noProcesses},
		{"end with its parent", func() error { return unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0) }},
	} {
		if err := step.do(); err != nil {
			return fmt.Errorf("%s: %w", step.what, err)
		}
	}
	return fmt.Errorf("execute: %w", execute(o.Args, o.Env))
}

func below() error {
	if err := unix.Fchdir(rootFD); err != nil {
		return err
	}
	if err := unix.Chroot("."); err != nil {
		return err
	}
	return unix.Close(rootFD)
}

func bounded(seconds uint64) error {
	const memory = 4 << 30
	for what, most := range map[int]uint64{unix.RLIMIT_CPU: seconds, unix.RLIMIT_CORE: 0, unix.RLIMIT_FSIZE: 0,
		unix.RLIMIT_NOFILE: 64, unix.RLIMIT_AS: memory, unix.RLIMIT_MEMLOCK: 0} {
		if err := unix.Setrlimit(what, &unix.Rlimit{Cur: most, Max: most}); err != nil {
			return err
		}
	}
	return nil
}

func giveUp() error {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return err
	}
	for c := uintptr(0); ; c++ {
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0); err == unix.EINVAL && c > unix.CAP_WAKE_ALARM {
			return nil // the kernel has no higher capability
		} else if err != nil {
			return err
		}
	}
}

// become changes only this thread, unlike libc: execve makes it the only one.
func become(uid, gid uint32) error {
	if _, _, errno := unix.RawSyscall(unix.SYS_SETGROUPS, 0, 0, 0); errno != 0 {
		return errno
	}
	if _, _, errno := unix.RawSyscall(unix.SYS_SETRESGID, uintptr(gid), uintptr(gid), uintptr(gid)); errno != 0 {
		return errno
	}
	if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, uintptr(uid), uintptr(uid), uintptr(uid)); errno != 0 {
		return errno
	}
	return nil
}

func noCapabilities() error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var none [2]unix.CapUserData
	return unix.Capset(&header, &none[0])
}

func execute(args, env []string) error {
	argv, err := syscall.SlicePtrFromStrings(args)
	if err != nil {
		return err
	}
	envp, err := syscall.SlicePtrFromStrings(env)
	if err != nil {
		return err
	}
	unix.CloseOnExec(imageFD)
	var empty [1]byte
	_, _, errno := unix.RawSyscall6(unix.SYS_EXECVEAT, imageFD, uintptr(unsafe.Pointer(&empty)),
		uintptr(unsafe.Pointer(&argv[0])), uintptr(unsafe.Pointer(&envp[0])), unix.AT_EMPTY_PATH, 0)
	return errno
}

// install installs a filter of system calls for this thread.
func install(filter []unix.SockFilter) error {
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	if _, _, errno := unix.RawSyscall(unix.SYS_PRCTL, unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&program))); errno != 0 {
		return errno
	}
	return nil
}
