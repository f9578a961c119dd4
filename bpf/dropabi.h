// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* What is not kept is counted, by why: this part of abi.h. */
#pragma once

/* Why something was not kept. The names shown are made from these. */
enum drop_reason {
	DROP_RING_FULL, /* a record of a call that may be thinned found no room */
	DROP_THINNED, /* a call record was left out on purpose; others carry its weight */
	DROP_CRITICAL_FULL, /* a process record found no room */
	DROP_THREADS_FULL, /* a call was counted, not timed: too many threads */
	DROP_COUNTS_FULL, /* a call was counted for its row, not for its process */
	DROP_TARGETS_FULL, /* a child process is not traced */
	DROP_TOO_DEEP, /* a call was counted, not timed: too many open around it */
	DROP_DUPLICATE_LINK, /* the same call came by a second link, and was left out */
	DROP_WAIT, /* a wait, or a thread's last account, found no room; the sums have it */
	DROP_WAKERS_FULL, /* a waker of a thread that makes calls has no account: quota */
	DROP_TEXT, /* a string that a call was given could not be read, or found no room */
	DROP_STACK, /* a stack found no room, and its call has none */
	DROP_ORPHAN_RETURN, /* a return without its entry: a forked child, a call begun before the attach */
	DROP_HOST_FULL, /* something on the host was counted for its kind alone */
	DROP_HOST_BEGUN, /* the end of it will not be recognised: too many had begun */
	DROP_PYTHON, /* a code object found no room, or a child has no Python frames: too many processes */
	DROP_RANGE, /* a call of NVTX found no room */
	DROP_KEPT_FULL, /* a record of a call that is never thinned found no room in either ring */
	DROP_DEEP_WAKERS_FULL, /* a waker of a waker has no account: quota */
	DROP_WAKER_NO_ROOM, /* a waker has no account: no room in threads */
	DROP_WAKER_TOO_FAR, /* a waker has no account: it is more than MAX_HOPS away */
	DROP_WAKER_KERNEL, /* a waker has no account: it is a thread of the kernel */
	DROP_WAKER_AGENT, /* a waker has no account: it is the agent */
	DROP_CULPRITS_FULL, /* who had the CPU in a wait has no name: more than CULPRITS had it */
	DROP_TURNS_FULL, /* likewise: there were more than SLICES turns on the CPU since */
	DROP_REASONS,
};
