package proc

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// firstPIDNamespace is the inode of the initial PID namespace, the same in every kernel
// (PROC_PID_INIT_INO, include/linux/proc_ns.h).
const firstPIDNamespace = "pid:[4026531836]"

// ThreadPID returns the number of a thread in its own PID namespace.
func (f FS) ThreadPID(pid, tid uint32) (uint32, error) {
	name := []string{strconv.FormatUint(uint64(pid), 10), "task", strconv.FormatUint(uint64(tid), 10), "status"}
	buf, err := f.readFile(maxSmall, nil, name...)
	if err != nil {
		return 0, exitedOr(pid, "read "+f.path(name...), err)
	}
	st, err := parseStatus(buf)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", f.path(name...), err)
	}
	if st.npids == 0 {
		return tid, nil
	}
	return st.pids[st.npids-1], nil
}

// ThreadCalled returns the thread of a process with a given number in its own PID namespace.
func (f FS) ThreadCalled(pid, own uint32) (uint32, error) {
	if n, err := f.ThreadPID(pid, own); err == nil && n == own { // no namespace of its own
		return own, nil
	}
	dir, err := os.Open(f.path(strconv.FormatUint(uint64(pid), 10), "task"))
	if err != nil {
		return 0, exitedOr(pid, "threads", err)
	}
	defer func() { _ = dir.Close() }() // read only
	names, _ := dir.Readdirnames(maxNames)
	for _, name := range names {
		tid, err := strconv.ParseUint(name, 10, 32)
		if err != nil {
			continue
		}
		if n, err := f.ThreadPID(pid, uint32(tid)); err == nil && n == own {
			return uint32(tid), nil
		}
	}
	return 0, fmt.Errorf("pid %d has no thread whose own PID is %d: %w", pid, own, ErrExited)
}

// HostPIDs reports whether the agent and this proc file system use the host's process numbers, as
// BPF programs do. Otherwise nothing can be traced: a container needs the host's PID namespace
// (hostPID).
func (f FS) HostPIDs() (bool, error) {
	own, err := os.Readlink(f.path("self", "ns", "pid"))
	if err != nil {
		return false, fmt.Errorf("own PID namespace: %w", err)
	}
	if own != firstPIDNamespace {
		return false, nil
	}
	// In the first namespace getpid returns the host's number. A proc file system of another
	// namespace has another number for the agent, or none.
	self, err := os.Readlink(f.path("self"))
	if err != nil {
		return false, fmt.Errorf("own number: %w", err)
	}
	return strings.TrimSpace(self) == strconv.Itoa(os.Getpid()), nil
}
