// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* The part of abi.h that stacks need: how they are walked, and how they cross to Go. */
#pragma once

#define WALK_FRAMES 64 /* callers in one stack */
#define MAX_SPACES 4096 /* sets of mappings: MAX_TARGETS */
#define MAX_MAPPINGS 4095 /* executable ones of a process: unwind.MaxMappings */
#define MAX_OBJECTS 4096 /* files with tables, at a time: unwind.MaxObjects */
#define MAX_RULES 32768 /* of all tables together: unwind.MaxRules */
#define TABLE_LINE 16 /* words of a table that are looked up at once */

/* How a frame's caller is found: unwind.Kind. */
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

/* Where a frame's caller is: unwind.Rule. */
struct unwind_rule {
	__u8 kind; /* enum unwind_kind */
	__u8 arg;
	__u16 pad;
	__s32 cfa; /* from what the kind says */
	__s32 fp; /* from the CFA; 0: the caller's is the frame's own */
	__s32 ra; /* from the CFA; 0: in the link register */
};
_Static_assert(sizeof(struct unwind_rule) == 16, "unwind_rule");

/* By what the callers of code in a mapping are found: unwind.Means. */
enum unwind_means {
	MEANS_TABLE, /* its file's table, when that is there */
	MEANS_FP, /* frame pointers: its file has no table */
	MEANS_NONE, /* it is made at run time: the stack ends, and says so */
};

/* An executable mapping. The first of a space has the number of others in start, the space's id in end. */
struct unwind_mapping {
	__u64 start;
	__u64 end;
	__u64 bias; /* an address less this is one of the file */
	__u32 object; /* of the table */
	__u32 means; /* enum unwind_means */
};
_Static_assert(sizeof(struct unwind_mapping) == 32, "unwind_mapping");

/* Where a process has its mappings. */
struct unwind_space {
	__u32 slot;
	__u32 seen; /* enum space_seen, since user space has written this */
	__u64 id; /* of the space: a slot can have another by now */
};

enum space_seen {
	SPACE_USED = 1, /* a stack was taken */
	SPACE_MISSED = 2, /* an address was in no mapping: they are to be read again */
};

struct table_line {
	__u32 word[TABLE_LINE];
};

/* Why a stack has no more frames: unwind.End. */
enum walk_end {
	WALK_DONE, /* the thread began there */
	WALK_DEEP, /* it goes on beyond WALK_FRAMES */
	WALK_NO_SPACE, /* the mappings of the process are not known, or not yet */
	WALK_NO_MAPPING, /* the next address is in no mapping that is known */
	WALK_NO_TABLE, /* the table of the file is not loaded, or not yet */
	WALK_NO_RULE, /* the table says nothing of the address */
	WALK_JIT, /* the code was made at run time */
	WALK_UNREADABLE, /* the stack is not in memory */
	WALK_ASTRAY, /* what was found cannot be a caller */
	WALK_NOT_TAKEN, /* on purpose */
	WALK_ENDS,
};

#include "pyabi.h"

#define STACK_IPS (WALK_FRAMES + 1) /* native frames of a stack */

/* A stack, put out once, before the first call that has its number: tick.RawStack. */
struct stack_record {
	__u8 kind; /* RECORD_STACK */
	__u8 end; /* enum walk_end */
	__u8 natives;
	__u8 pad;
	__u32 id;
	__u32 tgid;
	__u32 tid;
	__u64 time_ns; /* CLOCK_MONOTONIC */
	__u64 ip[STACK_IPS]; /* innermost first; the first is the traced function itself */
	struct py_walk py; /* absent where there is none, and cut behind the last frame */
};
_Static_assert(offsetof(struct stack_record, ip) == 24, "stack_record");
