// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* The part of abi.h for stacks: walking them, and passing them to Go. */
#pragma once

#define WALK_FRAMES 64 /* callers in one stack */
#define MAX_SPACES 4096 /* sets of mappings: as MAX_TARGETS */
#define MAX_MAPPINGS 4095 /* executable mappings of a process: unwind.MaxMappings */
#define MAX_OBJECTS 4096 /* files with tables: unwind.MaxObjects */
#define MAX_RULES 32768 /* in all tables together: unwind.MaxRules */
#define TABLE_LINE 16 /* words of a table per lookup */

/* How to find a frame's caller: unwind.Kind. */
enum unwind_kind {
	UNWIND_NONE,
	UNWIND_SP,
	UNWIND_FP,
	UNWIND_SP_DEREF,
	UNWIND_FP_DEREF,
	UNWIND_PLT,
	UNWIND_SIGNAL,
	UNWIND_END,
	UNWIND_CHAIN,
};

/* Location of a frame's caller: unwind.Rule. */
struct unwind_rule {
	__u8 kind; /* enum unwind_kind */
	__u8 arg;
	__u16 pad;
	__s32 cfa; /* offset from the base that kind selects */
	__s32 fp; /* offset from the CFA; 0: the caller's is the frame's own */
	__s32 ra; /* offset from the CFA; 0: in the link register */
};
_Static_assert(sizeof(struct unwind_rule) == 16, "unwind_rule");

/* How to find the callers of code in a mapping: unwind.Means. */
enum unwind_means {
	MEANS_TABLE, /* the file's table, once loaded */
	MEANS_FP, /* frame pointers: the file has no table */
	MEANS_NONE, /* code made at run time: the stack ends with that reason */
};

/* An executable mapping. The first of a space: start has the number of others, end the id. */
struct unwind_mapping {
	__u64 start;
	__u64 end;
	__u64 bias; /* address minus file address */
	__u32 object; /* of the table */
	__u32 means; /* enum unwind_means */
};
_Static_assert(sizeof(struct unwind_mapping) == 32, "unwind_mapping");

/* Location of a process's mappings. */
struct unwind_space {
	__u32 slot;
	__u32 seen; /* enum space_seen, since user space wrote this */
	__u64 id; /* of the space: the slot may have been reused */
};

enum space_seen {
	SPACE_USED = 1, /* a stack was taken */
	SPACE_MISSED = 2, /* an address was in no mapping: read them again */
};

struct table_line {
	__u32 word[TABLE_LINE];
};

/* Why a stack has no more frames: unwind.End. */
enum walk_end {
	WALK_DONE, /* start of the thread */
	WALK_DEEP, /* more than WALK_FRAMES */
	WALK_NO_SPACE, /* mappings of the process unknown, maybe not yet loaded */
	WALK_NO_MAPPING, /* next address in no known mapping */
	WALK_NO_TABLE, /* table of the file not loaded, maybe not yet */
	WALK_NO_RULE, /* table has nothing for the address */
	WALK_JIT, /* code made at run time */
	WALK_UNREADABLE, /* stack not in memory */
	WALK_ASTRAY, /* the value found cannot be a caller */
	WALK_NOT_TAKEN, /* intentionally */
	WALK_ENDS,
};

#include "pyabi.h"

#define STACK_IPS (WALK_FRAMES + 1) /* native frames of a stack */

/* A stack, emitted once, before the first call with its number: tick.RawStack. */
struct stack_record {
	__u8 kind; /* RECORD_STACK */
	__u8 end; /* enum walk_end */
	__u8 natives;
	__u8 own; /* the thread took it of itself: the first is where it was, not a traced function */
	__u32 id;
	__u32 tgid;
	__u32 tid;
	__u64 time_ns; /* CLOCK_MONOTONIC */
	__u64 ip[STACK_IPS]; /* innermost first; the first is the traced function */
	struct py_walk py; /* absent if there is none, truncated after the last frame */
};
_Static_assert(offsetof(struct stack_record, ip) == 24, "stack_record");
