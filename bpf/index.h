// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* What every verifier understands, whatever clang makes of it. */
#pragma once

/*
 * i, which is less than n, a power of two. The mask is made where the index is used:
 * clang would leave it out as it sees the bounds itself, and Linux 5.15 forgets them of
 * what lay on the stack in between.
 */
#define INDEX(i, n)                                                                                \
	({                                                                                         \
		__u64 index_ = (i);                                                                \
		asm volatile("" : "+r"(index_));                                                   \
		index_ &((n)-1);                                                                   \
	})

/* A register of those in ctx, read by itself: no verifier lets the place in ctx be computed. */
#define ALONE(v)                                                                                   \
	({                                                                                         \
		__u64 alone_ = (v);                                                                \
		asm volatile("" : "+r"(alone_));                                                   \
		alone_;                                                                            \
	})
