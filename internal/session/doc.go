// Package session runs the pipeline: it polls a source, keeps the distributions of durations, makes
// one tick a second, and passes batches and ticks to every sink. It owns every goroutine of a trace
// and the order of start and stop.
//
// The table in stages.go lists the stages that each batch and tick passes through, in order, with
// the parts that each stage reads and writes.
//
// [Live] is the source on the running kernel; the replay of a recording (package store) is another.
// session finds no causes and renders nothing. Names that take time to find, such as those of GPU
// functions and stacks, are looked up on separate goroutines. Each has a bounded queue, and the
// names arrive in a later batch. The commands call this package.
//
// [Live] consists of owners. Each owner has its own state, lock and goroutines, and no other code
// touches them. Owners call each other's methods, or functions that their constructors received.
// They pass values and copies:
//
//	targets     the table of traced processes
//	enroller    decides which processes are traced, and requests probes for their libraries
//	libraries   attached libraries, and the functions with probes
//	shedder     what is shed while tracing costs too much
//	lives       forks, execs, exits and gates, in order
//	reader      calls and waits from the rings, counts from the maps
//	resolver    unwinding, Python interpreters, frame names, holders of the GIL
//	inside      libraries linked into programs
//	hostWatch   host sums; gpus: the GPUs; others: processes that are not traced
//	reporter    the reports of ticks
//
// Lock order, outermost first: enroller's; libraries' attaching, then choosing or leaving; lives';
// the locks of the tables (targets, libraries' mu, gates, inside), at most one at a time; the locks
// of resolver's parts and of programs; reporter's. A holder may take a lock of a later rank only.
package session
