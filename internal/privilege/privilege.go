// Package privilege knows which capabilities this process has, and lets go of those that
// a program with file capabilities was given and a command does not need.
//
// Under root it changes nothing. Its callers are package cli and its checks.
package privilege

import (
	"fmt"
	"os"
	"runtime"

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

// Keep readies a process that was given capabilities by its file to use them: the kernel
// hides such a one's own /proc from it. No core of it is written, which would have what
// it read of others; and nobody without the same capabilities can look into it.
func Keep() error {
	if !given() {
		return nil
	}
	if err := unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{}); err != nil {
		return fmt.Errorf("write no core: %w", err)
	}
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("see own /proc: %w", err)
	}
	return nil
}

// Drop lets go of capabilities that were given by the program's file, for good: it
// starts the program anew, which from then on gets none. It returns nil where there is
// nothing to let go of, and does not return where there is.
func Drop() error {
	if !given() {
		return nil
	}
	if set, err := unix.PrctlRetInt(unix.PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0); err == nil && set == 1 {
		return nil // a service's own: what it has it was meant to have
	}
	runtime.LockOSThread() // what follows is of one thread, and the one that goes on
	defer runtime.UnlockOSThread()
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return fmt.Errorf("let go of ambient capabilities: %w", err)
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("take no new privileges: %w", err)
	}
	// Of the file's capabilities the program gets again those that it has now: none.
	var none [2]unix.CapUserData
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	if err := unix.Capset(&header, &none[0]); err != nil {
		return fmt.Errorf("let go of capabilities: %w", err)
	}
	return fmt.Errorf("start again without capabilities: %w", unix.Exec("/proc/self/exe", os.Args, os.Environ()))
}
