// Package privilege knows which capabilities this process has, and lets go of those that
// a program with file capabilities was given and a command does not need.
//
// Under root it changes nothing. Its callers are package cli and its checks.
package privilege

import (
	"fmt"
	"os"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Set is a set of capabilities, by number.
type Set uint64

// Has tells whether a capability is in the set.
func (s Set) Has(capability int) bool { return s&(1<<capability) != 0 }

// Own returns those that this process may use now.
func Own() (Set, error) {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&header, &data[0]); err != nil {
		return 0, fmt.Errorf("read own capabilities: %w", err)
	}
	return Set(data[0].Effective) | Set(data[1].Effective)<<32, nil
}

// given tells whether this process is not root's and has capabilities.
func given() bool {
	s, err := Own()
	return os.Geteuid() != 0 && err == nil && s != 0
}

// Keep prepares a process with file capabilities to use them: by default, the kernel hides the
// process's own /proc from it. Processes without the same capabilities cannot read its memory.
// Call [NoCores] before this process reads others.
func Keep() error {
	if !given() {
		return nil
	}
	return showOwn()
}

func showOwn() error {
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("make own /proc readable: %w", err)
	}
	return nil
}

// NoCores permanently disables core dumps of a process with file capabilities, since they could
// contain data of other processes. Programs that it starts afterwards inherit that.
func NoCores() error {
	if !given() {
		return nil
	}
	if err := unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{}); err != nil {
		return fmt.Errorf("disable core dumps: %w", err)
	}
	return nil
}

// Forget drops the capabilities of the program's file. Unlike Drop, it does not restrict programs
// that this process executes: they get the capabilities of their own files.
func Forget() error {
	if !given() {
		return nil
	}
	var none [2]unix.CapUserData
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	_, _, err := syscall.AllThreadsSyscall(unix.SYS_CAPSET, uintptr(unsafe.Pointer(&header)), uintptr(unsafe.Pointer(&none[0])), 0)
	switch err {
	case 0:
		return showOwn()
	case syscall.ENOTSUP: // a build with cgo
		return Drop()
	}
	return fmt.Errorf("drop capabilities: %w", err)
}

// Drop permanently drops the capabilities of the program's file: it executes the program again
// without them. It returns nil if there are no such capabilities; otherwise it returns only an
// error.
func Drop() error {
	if !given() {
		return nil
	}
	if set, err := unix.PrctlRetInt(unix.PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0); err == nil && set == 1 {
		return nil // a service: its manager gave it these capabilities
	}
	runtime.LockOSThread() // the calls below affect only this thread, which then executes the program
	defer runtime.UnlockOSThread()
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return fmt.Errorf("drop ambient capabilities: %w", err)
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("set no_new_privs: %w", err)
	}
	// With no_new_privs, exec grants only the capabilities that this thread has: none.
	var none [2]unix.CapUserData
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	if err := unix.Capset(&header, &none[0]); err != nil {
		return fmt.Errorf("drop capabilities: %w", err)
	}
	return fmt.Errorf("restart without capabilities: %w", unix.Exec("/proc/self/exe", os.Args, os.Environ()))
}
