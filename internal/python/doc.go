// Package python reads the stacks of CPython functions, for CPython 3.10 to 3.14.
//
// [Find] looks for an interpreter in a process and finds the offsets of its structures. The
// interpreter publishes them (3.13 on), or they come from a table by version, or from debug
// information. Find follows them through the live process before it accepts them, since a wrong
// offset makes frames that look right. It refuses a mismatch with a reason ([Reason]). The kernel's
// walker (bpf/pywalk.h) gets these facts. Its stacks are exact, because the thread stands still
// meanwhile. [Walker] does the same from user space where the kernel cannot; its process runs on.
//
// Both return frames as numbers: the address of a code object, a mark that distinguishes it from
// earlier objects at that address, and the instruction. [Codes] names code objects from records
// that the kernel sends once for each, or else reads them from the process. [Merge] puts the Python
// frames where the native stack has the evaluation loop.
//
// The traced process wrote the memory that the package reads, so the package treats it as hostile:
// chains and sizes are bounded. Free-threaded builds are refused. The package starts no goroutine.
// Its callers are session, which feeds it, and check.
package python
