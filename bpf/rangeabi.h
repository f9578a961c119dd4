// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* The part of abi.h for NVTX ranges. */
#pragma once

#define RANGE_NAME 128 /* bytes of a range's name, with terminator: tick.MaxRangeName */

enum range_flags { /* tick.RangeFlags */
		   RANGE_RETURNED = 1, /* the function returns; id is the result */
		   RANGE_CUT = 2, /* the name was truncated */
		   RANGE_UNACCOUNTED = 4, /* the account lacks off-CPU time */
};

/* An NVTX call: the start or end of a range. Not a CUDA call: tick.Range. */
struct range_record {
	__u8 kind; /* RECORD_RANGE */
	__u8 flags; /* enum range_flags */
	__u16 op;
	__u32 tgid;
	__u32 tid;
	__u32 lost; /* dropped range records of the thread, so far */
	__u64 time_ns; /* CLOCK_MONOTONIC */
	__u64 id; /* range that ends, or result; else address of the name */
	__u64 domain; /* 0: default domain */
	struct account account; /* of the thread, current */
	char name[RANGE_NAME];
};
_Static_assert(sizeof(struct range_record) == 264, "range_record");
