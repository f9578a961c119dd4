// Package label receives what programs say about themselves: labels such as step, epoch, request or
// tenant. [Listen] opens a local datagram socket; [Send] sends a message to it.
//
// The kernel verifies each sender's PID and UID. A sender may label its own user's processes; root
// and the tracer's user may label any. What a sender can cost the trace is bounded: messages a
// second, keys of a process, processes, changes that wait. Each refusal is counted by reason.
package label
