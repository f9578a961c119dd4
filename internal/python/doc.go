// Package python reads the stacks of CPython's own functions, for 3.10 to 3.14.
//
// [Find] looks for an interpreter in a process and says where things are in it. The
// offsets are those that the interpreter publishes (3.13 on), those of its version, or
// those of its debugging information, and none counts before it has been followed through
// the live process: what does not fit is refused with a reason ([Reason]), since a wrong
// offset makes frames that look right. The kernel's walker (bpf/pywalk.h) gets these facts,
// and its stacks are exact, as the thread stands still for it. [Walker] does the same from
// user space for where the kernel cannot; it reads a process that runs on meanwhile.
//
// Both give frames as numbers: the address of a code object, what tells it from others
// that have had this address, and the instruction. [Codes] knows what code objects are
// called, from records that the kernel puts out once for each, or else from the process.
// [Merge] puts Python's frames where the native ones have the evaluation loop.
//
// What it reads was written by the traced process and is taken for hostile: chains and
// sizes are bounded. Free-threaded builds are refused. It starts no goroutine; its callers
// are the session, which feeds it, and check.
package python
