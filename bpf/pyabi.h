// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* The part of abi.h for Python. */
#pragma once

#define PY_FRAMES 128 /* in one stack; a power of two. python.MaxFrames */
#define PY_STEPS 320 /* frames, and entries between them */
#define PY_THREADS 4096 /* thread states searched for one */
#define PY_SEARCH 16 /* of these, per step */
#define PY_CODES 16384 /* code objects known to have been emitted */
#define PY_RAW 32 /* words: space for the read part of a frame, code object or thread state */
#define PY_LINES_SHORT 512 /* bytes of most line tables */
#define PY_LINES_LONG 4096 /* longest emitted one: user space reads longer ones */

/* Of CPython. */
#define PY_OWNER_GENERATOR 1 /* _PyInterpreterFrame.owner: FRAME_OWNED_BY_GENERATOR */
#define PY_OWNER_SHIM 3 /* and above: entry of the evaluation loop. 3.12 */
#define PY_STR_COMPACT (1 << 5) /* PyASCIIObject.state: the characters follow */
#define PY_STR_ASCII (1 << 6)
#define PY_BYTES_SIZE 16 /* offset of a PyBytesObject's size */
#define PY_BYTES_DATA 32 /* offset of its bytes */

enum py_flags { /* python.Layout: flags of a version */
		PY_CFRAME = 1, /* a _PyCFrame is between a thread state and its frame: 3.11, 3.12 */
		PY_LASTI = 2, /* frames are objects, and count instructions: 3.10 */
		PY_ENTRY_BYTE =
			4, /* the byte before owner marks a frame that entered the loop: 3.11 */
};

/* Offsets in one CPython's structures, in bytes: python.Layout. */
struct py_layout {
	__u16 flags; /* enum py_flags */
	__u16 interp_head; /* _PyRuntimeState */
	__u16 interp_next; /* PyInterpreterState */
	__u16 interp_threads;
	__u16 ts_bytes; /* PyThreadState: bytes to read; prev, next, interp come first */
	__u16 ts_id;
	__u16 ts_frame;
	__u16 cframe_frame; /* _PyCFrame */
	__u16 f_bytes; /* PyFrameObject, _PyInterpreterFrame */
	__u16 f_code;
	__u16 f_prev;
	__u16 f_instr;
	__u16 f_owner;
	__u16 co_bytes; /* PyCodeObject: bytes to read, from its type on */
	__u16 co_code; /* the instructions; at 16 before: initial instructions of a frame */
	__u16 co_version; /* its number, 0: none */
	__u16 co_first; /* first line */
	__u16 co_file;
	__u16 co_name;
	__u16 co_qualname; /* co_name if there is none */
	__u16 co_lines;
	__u16 str_ascii; /* size of a PyASCIIObject */
	__u16 str_compact; /* size of a PyCompactUnicodeObject */
	__u16 pad;
};
_Static_assert(sizeof(struct py_layout) == 48, "py_layout");

/* A process's interpreter: python.Facts. */
struct py_process {
	__u64 runtime; /* address of _PyRuntime */
	__u64 code_type; /* address of PyCode_Type */
	__u64 gil; /* address of the lock that threads wait for, 0: unknown */
	__u32 thread_below; /* thread pointer minus pthread_self() */
	__u32 epoch; /* new for each update of the process, and for each child */
	struct py_layout at;
};
_Static_assert(sizeof(struct py_process) == 80, "py_process");
#define PY_GIL_BYTES 88 /* size of it: a condition and a mutex. python.gilWaited */
#define PY_GIL_HOLDER 24 /* struct gil is this far before it. python.gilCond - gilHolder */
#define PY_CHILD (1u << 31) /* epochs that the kernel assigns */

/* Low bits of a frame's code, since code objects are at multiples of 8. */
#define PY_ENTRY 1 /* the evaluation loop was entered with it */
#define PY_BEGINS 2 /* it has not started to run */

struct py_frame {
	__u64 code; /* address, PY_ENTRY, PY_BEGINS; no address: a loop that runs nothing */
	__u32 mark; /* distinguishes the code object from others at its address */
	__s32 instr; /* bytes from the first instruction */
};

/* How a walk ended: python.End. */
enum py_end {
	PY_END_OK, /* outermost frame reached */
	PY_END_CUT, /* more frames exist */
	PY_END_NOT_PYTHON, /* no interpreter known */
	PY_END_NO_THREAD, /* thread runs no Python */
	PY_END_THREADS, /* too many threads to find this one */
	PY_END_AMBIGUOUS, /* thread in two interpreters */
	PY_END_FAULT, /* unreadable memory */
	PY_END_STRANGE, /* frame without code object */
	PY_ENDS,
};

/* A walk. Results are epoch, n, end and frames; the rest is internal. */
struct py_walk {
	__u32 epoch;
	__u32 n;
	__u32 end; /* enum py_end */
	__u32 interps; /* interpreters searched */
	__u64 self;
	__u64 interp;
	__u64 thread;
	__u64 found;
	__u64 frame; /* next frame */
	__u64 raw[PY_RAW];
	struct py_frame frames[PY_FRAMES]; /* innermost first */
};

/* Copied characters of a str. */
struct py_text {
	__u16 bytes;
	__u8 kind; /* bytes per character, PY_KIND_ASCII, 0: unreadable */
	__u8 cut; /* truncated */
};
#define PY_KIND_ASCII 8

/* A code object, before its first stack. Its line table follows. */
struct py_code_record {
	__u8 kind; /* RECORD_PY_CODE */
	__u8 flags; /* enum py_flags, of its interpreter */
	__u8 pad[2];
	__u32 tgid;
	__u64 code;
	__u32 mark;
	__u32 epoch;
	__u32 first; /* line */
	__u32 lines; /* bytes of its line table, 0: to be read from the process */
	struct py_text name;
	struct py_text file;
	char name_text[256];
	char file_text[512];
};
_Static_assert(sizeof(struct py_code_record) == 808, "py_code_record");

struct py_code_key {
	__u64 code;
	__u32 mark;
	__u32 epoch;
};
