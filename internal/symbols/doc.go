// Package symbols finds the GPU function (kernel) that a launch started.
//
// [Names] learns from calls and events: registrations of the CUDA runtime, functions taken from
// modules and libraries, handles made from handles, and forks, execs and exits. It asks a [Reader]
// for the rest: a name in the memory of a process, the symbol at an address. It asks for launched
// functions, and for the first ones that a process registers, since a short process may have ended
// when its launches arrive. It never waits for the answer.
//
// Each launch then has a name or a reason. A name is reported as an [events.Function], valid from
// its time on for one handle of one process. When a child launches an inherited function, Names
// reports that again, so a consumer needs no history. Without a Reader, as in a replay, Names
// learns from these reports alone.
//
// The package reads no process and starts one goroutine, which calls the Reader. [Find] reads
// symbols of an ELF file that may be hostile. [Demangle] and [Short] make names readable. Its
// callers are session and the code that shows names.
package symbols
