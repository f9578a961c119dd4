package proc

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// userTick is the unit of times in stat: USER_HZ, part of the ABI and 100 on every supported
// architecture.
const userTick = 10 * time.Millisecond

// Process has the facts about one process.
type Process struct {
	PID, PPID uint32 // as this proc file system numbers them
	// NSPIDs are its numbers from this proc file system's PID namespace down to its own. The last
	// is its own getpid.
	NSPIDs  []uint32
	UID     uint32 // real user
	GID     uint32 // real group
	Threads int
	// ThreadOf is the process that a thread's number belongs to: /proc/TID exists, though it is not
	// listed. 0: this is a process.
	ThreadOf uint32
	Comm     string // at most 15 bytes, as valid UTF-8
	Exe      string // program as the process sees it; empty without permission
	Cgroup   string // preferred cgroup path; "/" when it is in none
	// Cgroups are the paths of all hierarchies, in order of preference.
	Cgroups []string
	// StartTicks is the start time, in 10 ms of the boot clock: with PID, its identity. Started is
	// the same on the wall clock.
	StartTicks uint64
	Started    time.Time
	// Seccomp is the kernel's seccomp mode: 0 none, 1 strict (four system calls), 2 filter.
	Seccomp int
	// ShadowStack means that the CPU guards its return addresses (x86 CET).
	ShadowStack bool
	// Kernel marks a kernel thread.
	Kernel bool
	// Zombie means that its main thread has ended. It has neither memory nor maps.
	Zombie bool
	// Libraries are the CUDA libraries that it maps. Only Scan fills it.
	Libraries []Library
}

// SeccompFilter is the value of Seccomp for a filter (SECCOMP_MODE_FILTER).
const SeccompFilter = 2

// ReturnHarm returns the reason why return probes would harm the process, "" if there is none.
// kills means that the kernel kills a process with a seccomp filter at a return probe.
func (p *Process) ReturnHarm(kills bool) string {
	switch {
	case p.ShadowStack:
		return "it guards its return addresses (x86 shadow stack), and a return probe would end it"
	case p.Seccomp == SeccompFilter && kills:
		return "it has a seccomp filter, and this kernel kills such processes at a return probe"
	}
	return ""
}

// NSPID returns the process's number in its own PID namespace.
func (p *Process) NSPID() uint32 {
	if len(p.NSPIDs) == 0 {
		return p.PID
	}
	return p.NSPIDs[len(p.NSPIDs)-1]
}

// Process reads the facts about one process. The error is ErrExited if it does not exist or ends
// meanwhile.
func (f FS) Process(pid uint32) (Process, error) {
	d, err := f.openPID(pid)
	if err != nil {
		return Process{}, err
	}
	defer d.close()
	var scratch [4096]byte
	st, buf, err := d.status(scratch[:])
	if err != nil {
		return Process{}, err
	}
	return f.facts(d, &st, buf)
}

// status reads and parses status. It reuses buf if it has room, and returns it.
func (d pidDir) status(buf []byte) (status, []byte, error) {
	buf, err := d.read("status", buf[:0], maxStatus)
	if err != nil {
		return status{}, buf, err
	}
	st, err := parseStatus(buf)
	if err != nil {
		err = fmt.Errorf("%s/status: %w", d.root, err)
	}
	return st, buf, err
}

// facts completes status to a Process. It reuses buf.
func (f FS) facts(d pidDir, st *status, buf []byte) (Process, error) {
	p := Process{
		PID: d.pid, PPID: st.ppid, UID: st.uid, GID: st.gid, NSPIDs: st.nspids(), Threads: int(st.threads),
		Seccomp: int(st.seccomp), ShadowStack: st.shadowStack,
		Kernel: st.kernel, Zombie: st.zombie,
	}
	if st.tgid != d.pid {
		p.ThreadOf = st.tgid
	}
	s, buf, err := d.stat(buf)
	if err != nil {
		return Process{}, err
	}
	p.Comm, p.StartTicks = valid(unescape(s.comm)), s.start
	// Some kernels escape the name in stat; this file has it unescaped.
	if bytes.IndexByte(s.comm, '\\') >= 0 {
		if name, err := d.read("comm", nil, maxSmall); err == nil && len(name) > 0 {
			p.Comm = valid(string(bytes.TrimSuffix(name, []byte("\n"))))
		}
	}
	p.Kernel = p.Kernel || s.kernel
	p.Started = f.bootTime().Add(time.Duration(s.start) * userTick)
	if buf, err = d.read("cgroup", buf[:0], maxSmall); err == nil {
		p.Cgroup, p.Cgroups = parseCgroup(buf), cgroupPaths(buf)
	} else {
		p.Cgroup = "/" // no cgroups, or the process is gone, which alive reports
	}
	p.Exe = d.exe()
	return p, d.alive()
}

// Exe returns the program of a process as the process sees it, "" if it is unknown.
func (f FS) Exe(pid uint32) string {
	d, err := f.openPID(pid)
	if err != nil {
		return ""
	}
	defer d.close()
	return d.exe()
}

// exe implements [FS.Exe]. A kernel thread has no program, and another user's may be hidden.
func (d pidDir) exe() string {
	exe, err := d.link("exe")
	if err != nil {
		return ""
	}
	return strings.TrimSuffix(exe, deletedSuffix)
}

// StartTicks returns the start of the process, or thread, that has a number now, as [Process] has it. It reads one file.
// The error is ErrExited if there is none.
func (f FS) StartTicks(pid uint32) (uint64, error) {
	d, err := f.openPID(pid)
	if err != nil {
		return 0, err
	}
	defer d.close()
	var scratch [512]byte
	s, _, err := d.stat(scratch[:])
	return s.start, err
}

// Lives reports whether a thread of a process that was read before had not begun to end when Lives was
// called. The kernel then traces the exit of the process after that call.
func (f FS) Lives(p *Process) bool {
	d, err := f.openPID(p.PID)
	if err != nil {
		return false
	}
	defer d.close()
	s, buf, err := d.stat(nil)
	if err != nil || s.start != p.StartTicks {
		return false
	}
	if !s.ending || d.threadRuns() {
		return true
	}
	s, _, err = d.stat(buf) // a thread that executes another program becomes the main thread
	return err == nil && !s.ending
}

// threadRuns reports whether a thread of a process has not begun to end.
func (d pidDir) threadRuns() bool {
	seen := map[string]bool{}
	for fresh := true; fresh; { // a thread may have started another before its own end
		fresh = false
		dir, err := os.Open(d.root + "/task")
		if err != nil {
			return false
		}
		tids, _ := dir.Readdirnames(-1)
		_ = dir.Close() // read only
		for _, tid := range tids {
			if seen[tid] {
				continue
			}
			seen[tid], fresh = true, true
			buf, err := d.read("task/"+tid+"/stat", nil, maxSmall)
			if err != nil {
				continue
			}
			if s, err := parseStat(buf); err == nil && !s.ending {
				return true
			}
		}
	}
	return false
}

// ThreadName returns the name (comm) of a thread of a process, "" if there is no such thread.
func (f FS) ThreadName(pid, tid uint32) string {
	d, err := f.openPID(pid)
	if err != nil {
		return ""
	}
	defer d.close()
	b, err := d.read("task/"+strconv.FormatUint(uint64(tid), 10)+"/comm", nil, maxSmall)
	if err != nil {
		return ""
	}
	return valid(string(bytes.TrimSuffix(b, []byte("\n"))))
}

// valid returns a name as valid UTF-8: the kernel keeps 15 bytes, and may cut a character.
func valid(name string) string { return strings.ToValidUTF8(name, "?") }

// maxNames bounds the threads whose names are read.
const maxNames = 4096

// ThreadNames returns the names of a process's threads, skipping unreadable ones.
func (f FS) ThreadNames(pid uint32) []string {
	dir, err := os.Open(f.path(strconv.FormatUint(uint64(pid), 10), "task"))
	if err != nil {
		return nil
	}
	defer func() { _ = dir.Close() }() // read only
	tids, _ := dir.Readdirnames(maxNames)
	var out []string
	for _, tid := range tids {
		if n, err := strconv.ParseUint(tid, 10, 32); err == nil {
			out = append(out, f.ThreadName(pid, uint32(n)))
		}
	}
	return out
}
