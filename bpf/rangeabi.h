// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* The part of abi.h that is about ranges of NVTX. */
#pragma once

#define RANGE_NAME 128 /* bytes of a range's name, with its end: tick.MaxRangeName */

enum range_flags { /* tick.RangeFlags */
		   RANGE_RETURNED = 1, /* the function returns; id is what it returned */
		   RANGE_CUT = 2, /* the name was longer */
		   RANGE_UNACCOUNTED = 4, /* the account lacks what the thread was off the CPU */
};

/* A call of NVTX: a range begins or ends. It is no CUDA call: tick.Range. */
struct range_record {
	__u8 kind; /* RECORD_RANGE */
	__u8 flags; /* enum range_flags */
	__u16 op;
	__u32 tgid;
	__u32 tid;
	__u32 lost; /* of these records of the thread, so far */
	__u64 time_ns; /* CLOCK_MONOTONIC */
	__u64 id; /* of the range that ends, or of what returned; else where the name is */
	__u64 domain; /* 0: the default one */
	struct account account; /* of the thread, as of now */
	char name[RANGE_NAME];
};
_Static_assert(sizeof(struct range_record) == 264, "range_record");
