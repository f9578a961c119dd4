// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* Code that every verifier accepts, whatever clang generates. */
#pragma once

/*
 * i, which is less than n, a power of two. The mask is applied where the index is used: clang would
 * drop it, since it knows the bounds, and Linux 5.15 forgets the bounds of values that were spilled
 * to the stack.
 */
#define INDEX(i, n)                                                                                \
	({                                                                                         \
		__u64 index_ = (i);                                                                \
		asm volatile("" : "+r"(index_));                                                   \
		index_ &((n)-1);                                                                   \
	})

/* Reads a register of ctx by itself: no verifier accepts a computed offset in ctx. */
#define ALONE(v)                                                                                   \
	({                                                                                         \
		__u64 alone_ = (v);                                                                \
		asm volatile("" : "+r"(alone_));                                                   \
		alone_;                                                                            \
	})
