// Package session runs the pipeline: it polls a source, keeps the distributions
// of durations, makes one tick a second and hands batches and ticks to every
// sink. It owns every goroutine of a trace and the order of start and stop.
//
// What becomes of a batch and of a tick is the table in stages.go: each stage with what it
// takes and what it gives, in order.
//
// [Live] is the source on the running kernel; a recording's replay (package
// store) is another. session decides nothing about causes and renders nothing.
// Names that take time to find, those of GPU functions and of stacks, are looked up on
// goroutines of their own, of which each has a bounded queue, and come in a later batch.
// Its callers are the commands.
//
// [Live] is made of owners. Each has its own state, lock and goroutines, and nobody else
// touches those. Owners call each other's methods, or functions that they were given when they
// were made, and pass values and copies:
//
//	targets     the table of traced processes
//	enroller    decides which processes are traced, and has their libraries probed
//	libraries   what is attached, and which functions have probes
//	shedder     what is left out while tracing costs too much
//	lives       forks, execs, exits and gates, in order
//	reader      calls and waits from the rings, counts from the maps
//	resolver    unwinding, Python's interpreters, names of frames, holders of Python's lock
//	inside      which libraries are linked into programs
//	hostWatch   sums of the host; gpus: the GPUs; others: processes that are not traced
//	reporter    the reports of ticks
//
// Locks, outermost first: enroller's; libraries' attaching, then choosing or leaving; lives';
// then those of the tables (targets, libraries' mu, gates, inside), of which nobody holds two;
// then those of resolver's parts and of programs; reporter's. Whoever holds one may take one of
// a later rank, not of an earlier one or of its own.
package session
