// Package symbols says which GPU function (kernel) a launch started.
//
// [Names] learns from what passes: registrations of the CUDA runtime, functions
// taken from modules and libraries, handles made of handles, and the lives of
// processes. What is not in a call it asks a [Reader] for: the name that lies in the
// memory of a process, the symbol at an address. It asks for functions that are
// launched, and for the first ones that a process registers, since a short one may
// have ended by the time of its launches; and it never waits for the answer.
//
// For each launch there is then a name or a reason. A name is told as an
// [events.Function], which counts from its time on for one handle of one process:
// what a child has of its parent is told again when the child launches it, so that
// whoever reads needs no history. Names without a Reader learn from these alone: that
// is a replay.
//
// The package reads no process and starts one goroutine, which calls the Reader.
// [Find] reads symbols of an ELF file that may be hostile. [Demangle] and [Short] make
// names readable. Its callers are the session, and whoever shows names.
package symbols
