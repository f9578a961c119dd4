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
package session
