package events

import (
	"fmt"
	"strings"
)

// WaitState is why a thread was not on a CPU. Values as in bpf/abi.h.
type WaitState uint8

// The states.
const (
	WaitRunnable  WaitState = iota + 1 // ready to run, without a CPU
	WaitThrottled                      // its cgroup had used up its CPU quota
	WaitBlocked                        // blocked: see Reason
)

var waitStateNames = [...]string{WaitRunnable: "runnable", WaitThrottled: "throttled", WaitBlocked: "blocked"}

// String returns the state's lower-case name.
func (s WaitState) String() string {
	if int(s) < len(waitStateNames) && s > 0 {
		return waitStateNames[s]
	}
	return fmt.Sprintf("wait state(%d)", uint8(s))
}

// Reason is what a blocked thread waited for.
type Reason uint8

// The reasons.
const (
	ReasonUnknown Reason = iota
	ReasonLock           // a futex: a lock, a condition variable, another thread's end
	ReasonPoll           // one of several files, or a timeout
	ReasonSleep          // a time
	ReasonPipe           // a pipe's other end
	ReasonSocket         // a peer
	ReasonDisk           // a block device
	ReasonFile           // a file system, but not (known to be) a device
	ReasonFault          // a page fault; from disk or swap if WaitIO is set
	ReasonGPU            // a GPU device file: the driver
	ReasonDevice         // another device file
	ReasonChild          // another process's end
	ReasonStopped        // SIGSTOP or a debugger; Who stopped it
	ReasonMemory         // a change of its memory map
	ReasonOther          // a system call that fits none of these
	ReasonGIL            // the lock of a Python interpreter
	// ReasonHypervisor applies only to WaitRunnable: the hypervisor of a virtual machine gave the
	// thread's CPU to others. Who is empty.
	ReasonHypervisor
)

var reasonNames = [...]string{"unknown", "lock", "poll", "sleep", "pipe", "socket", "disk", "file", "page-fault",
	"gpu-driver", "device", "child", "stopped", "memory-map", "other", "gil", "hypervisor"}

// String returns the reason's lower-case name.
func (r Reason) String() string {
	if int(r) < len(reasonNames) {
		return reasonNames[r]
	}
	return fmt.Sprintf("reason(%d)", uint8(r))
}

// FileKind is the kind of file that a system call used.
type FileKind uint8

// The kinds.
const (
	FileNone FileKind = iota // no file, or unknown
	FileRegular
	FileDirectory
	FilePipe
	FileSocket
	FileBlock
	FileChar
	FileAnon // eventfd, epoll, timerfd and similar
)

var fileNames = [...]string{"", "file", "directory", "pipe", "socket", "block-device", "device", "anonymous"}

// String returns the kind's lower-case name, empty for FileNone.
func (k FileKind) String() string {
	if int(k) < len(fileNames) {
		return fileNames[k]
	}
	return fmt.Sprintf("file kind(%d)", uint8(k))
}

// WaitFlags are details of a [Wait]. Values as in bpf/abi.h.
type WaitFlags uint8

// The flags.
const (
	// WaitIO: the kernel counted the thread as waiting for a block device.
	WaitIO WaitFlags = 1 << iota
	// WaitByIRQ: an interrupt or a timer woke it, not a thread; Who is empty.
	WaitByIRQ
	// WaitIdle: WaitRunnable on an idle CPU, with a wake-up on its way. Who is empty.
	WaitIdle
	// WaitOthers: Taken sums up many short turns of threads without recorded names.
	// Who is empty, or has only the PID if the threads belong to the waiting process.
	WaitOthers
	// WaitMoved: the thread was moved to another CPU and kept waiting there; its next record
	// continues this one.
	WaitMoved
	// WaitPrevious: one more culprit of the previous record's wait. Start and Duration repeat that
	// wait and must not be added.
	WaitPrevious
)

// Thread identifies a thread with a part in a wait. TID 0 is none.
type Thread struct {
	PID, TID uint32
	Parent   uint32 // PID of PID's parent
	Start    uint32 `json:",omitempty"` // start time in ticks of 10 ms since boot, as in /proc, modulo 2^32; 0: unknown
	Cgroup   uint64 // ID of its cgroup in the unified hierarchy; 0: unknown
	Name     Name
}

// OfProgram reports whether t is a thread of a program: not none, and not one of the kernel's.
func (t *Thread) OfProgram() bool {
	const kthreadd = 2 // parent of the kernel's threads
	return t.TID != 0 && t.Parent != kthreadd
}

// Name is a thread's name (comm) as the kernel stores it, zero-padded. It is untrusted bytes.
type Name [16]byte

// NameOf returns the Name of s, truncated to 15 bytes.
func NameOf(s string) (n Name) {
	copy(n[:15], s)
	return n
}

// String returns the bytes before the first zero, as valid UTF-8: the kernel may have cut a name
// inside a character.
func (n Name) String() string {
	for i, c := range n {
		if c == 0 {
			return strings.ToValidUTF8(string(n[:i]), "?")
		}
	}
	return strings.ToValidUTF8(string(n[:]), "?")
}

// Wait is one time, of at least 20 us, that a thread spent without a CPU. Shorter times are only in
// the sums.
//
// A wait is one record. A runnable wait with several culprits has one record for each, and all but
// the first have WaitPrevious. A thread that blocks, is woken and then waits for a CPU makes two
// waits, back to back.
type Wait struct {
	Start    int64  // Unix nanoseconds
	Duration int64  // ns
	Taken    int64  // WaitRunnable: ns of Duration in which Who had the CPU
	Arg      uint64 // first argument of Syscall: a file descriptor, a futex's address; ReasonGIL: the PyThreadState of the lock's holder
	Who      Thread // WaitRunnable: had the CPU; of another process, its first thread represents all; of its own, one represents all if Hop > 0. WaitBlocked: woke or stopped the thread
	PID, TID uint32 // the thread that waited
	Stack    uint32 // ID of a [Stack], 0: none. Of Who: where it released the lock (ReasonGIL), else where it spent most of its time; or see OwnStack
	Dev      uint32 // device (major << 20 | minor): a special file's own, or the one that holds the file
	Own      uint32 `json:",omitempty"` // ID of the Stack with which the thread itself blocked, if a thread of a program ended the wait; 0: unknown
	Passed   uint32 `json:",omitempty"` // ReasonGIL: number of times the lock had passed to another thread, modulo 2^32; 0: unknown
	Op       Op     // the thread's outermost traced call at that time, 0: between calls
	CPU      uint16 // on which it waited, or last ran
	Syscall  Syscall
	State    WaitState
	Reason   Reason // WaitBlocked
	File     FileKind
	Flags    WaitFlags
	Hop      uint8 `json:",omitempty"` // hops to a thread that makes traced calls; 0: the thread itself makes them, or unknown
}

// OwnStack returns the stack with which the thread itself blocked, 0: unknown.
func (w *Wait) OwnStack() uint32 {
	if w.Who.OfProgram() {
		return w.Own
	}
	return w.Stack
}

// Continues reports whether a wait for the GIL continues an earlier one of the same thread that
// timed out: the lock has not passed to another thread in between. If Passed was not recorded,
// waits continue one another if the thread was on a CPU for less than 1 ms between them; apart is
// that time in ns.
func (w *Wait) Continues(earlier *Wait, apart int64) bool {
	const together = 1e6 // ns
	if w.Passed != 0 && earlier.Passed != 0 {
		return w.Passed == earlier.Passed
	}
	return apart <= together
}

// End returns when the wait ended, in Unix nanoseconds.
func (w *Wait) End() int64 { return w.Start + w.Duration }

// IsTerminal reports whether a character device is a terminal, by its device number: a console, a virtual
// terminal, a serial line or a pseudoterminal.
func IsTerminal(dev uint32) bool {
	major := dev >> 20
	return major == 4 || major == 5 || major >= 136 && major <= 143
}
