// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* The part of abi.h for drops: they are counted by reason. */
#pragma once

/* Reasons of drops. The displayed names derive from these. */
enum drop_reason {
	DROP_RING_FULL, /* a call record that may be thinned: ring full */
	DROP_THINNED, /* a call record was thinned; others carry its weight */
	DROP_CRITICAL_FULL, /* a process event: ring full */
	DROP_THREADS_FULL, /* a call was counted, not timed: thread table full */
	DROP_COUNTS_FULL, /* a call was counted for its row only: process table full */
	DROP_TARGETS_FULL, /* a child process is not traced: target table full */
	DROP_TOO_DEEP, /* a call was counted, not timed: too many open calls around it */
	DROP_DUPLICATE_LINK, /* the same call through a second link was ignored */
	DROP_WAIT, /* a wait, or a thread's last account: ring full; the sums have it */
	DROP_WAKERS_FULL, /* a waker of a calling thread was not enrolled: quota */
	DROP_TEXT, /* a string passed to a call was unreadable, or the ring was full */
	DROP_STACK, /* a stack, and so its call has none: no room */
	DROP_ORPHAN_RETURN, /* a return without an entry: forked child, or call before the attach */
	DROP_HOST_FULL, /* a host event was counted for its kind only: table full */
	DROP_HOST_BEGUN, /* the end of a host event will be missed: start table full */
	DROP_PYTHON, /* a code object: ring full, or a child has no Python frames: table full */
	DROP_RANGE, /* an NVTX call: ring full */
	DROP_KEPT_FULL, /* a call record that is never thinned: both rings full */
	DROP_DEEP_WAKERS_FULL, /* a waker of a waker was not enrolled: quota */
	DROP_WAKER_NO_ROOM, /* a waker was not enrolled: thread table full */
	DROP_WAKER_TOO_FAR, /* a waker was not enrolled: more than MAX_HOPS away */
	DROP_WAKER_KERNEL, /* a waker was not enrolled: kernel thread */
	DROP_WAKER_AGENT, /* a waker was not enrolled: the agent */
	DROP_CULPRITS_FULL, /* a culprit of a wait has no name: more than CULPRITS */
	DROP_TURNS_FULL, /* likewise: more than SLICES turns on the CPU since */
	DROP_REASONS,
};
