// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* What of Python crosses between the kernel and Go: a part of abi.h. */
#pragma once

#define PY_FRAMES 128 /* of one stack; a power of two. python.MaxFrames */
#define PY_STEPS 320 /* frames and what stands between them */
#define PY_THREADS 4096 /* thread states that are looked at to find one */
#define PY_SEARCH 16 /* of these, at a time */
#define PY_CODES 16384 /* code objects that are known to be told */
#define PY_RAW 32 /* words: room for what is read of a frame, a code object, a thread state */
#define PY_LINES_SHORT 512 /* bytes of most line tables */
#define PY_LINES_LONG 4096 /* of those that are told: longer ones are read by user space */

/* Of CPython. */
#define PY_OWNER_GENERATOR 1 /* _PyInterpreterFrame.owner: FRAME_OWNED_BY_GENERATOR */
#define PY_OWNER_SHIM 3 /* and above: it stands where the evaluation loop was entered. 3.12 */
#define PY_STR_COMPACT (1 << 5) /* PyASCIIObject.state: the characters follow */
#define PY_STR_ASCII (1 << 6)
#define PY_BYTES_SIZE 16 /* of a PyBytesObject: its size, */
#define PY_BYTES_DATA 32 /* and where its bytes begin */

enum py_flags { /* python.Layout: flags of a version */
		PY_CFRAME = 1, /* thread states point to what points to a frame: 3.11, 3.12 */
		PY_LASTI = 2, /* frames are objects, and count instructions: 3.10 */
		PY_ENTRY_BYTE =
			4, /* the byte before the owner marks a frame that the loop was entered with: 3.11 */
};

/* Offsets in the structures of one CPython, in bytes: python.Layout. */
struct py_layout {
	__u16 flags; /* enum py_flags */
	__u16 interp_head; /* _PyRuntimeState */
	__u16 interp_next; /* PyInterpreterState */
	__u16 interp_threads;
	__u16 ts_bytes; /* PyThreadState: as much as is read of it; prev, next, interp come first */
	__u16 ts_id;
	__u16 ts_frame;
	__u16 cframe_frame; /* _PyCFrame */
	__u16 f_bytes; /* PyFrameObject, _PyInterpreterFrame */
	__u16 f_code;
	__u16 f_prev;
	__u16 f_instr;
	__u16 f_owner;
	__u16 co_bytes; /* PyCodeObject: as much as is read of it, from its type on */
	__u16 co_code; /* the instructions; 16 before them is how many a frame begins with */
	__u16 co_version; /* its number, 0: it has none */
	__u16 co_first; /* first line */
	__u16 co_file;
	__u16 co_name;
	__u16 co_qualname; /* co_name where there is none */
	__u16 co_lines;
	__u16 str_ascii; /* bytes of a PyASCIIObject */
	__u16 str_compact; /* of a PyCompactUnicodeObject */
	__u16 pad;
};
_Static_assert(sizeof(struct py_layout) == 48, "py_layout");

/* A process's interpreter: python.Facts. */
struct py_process {
	__u64 runtime; /* address of _PyRuntime */
	__u64 code_type; /* of PyCode_Type */
	__u64 gil; /* of what threads block on that wait for the interpreter's lock, 0: not known */
	__u32 thread_below; /* what pthread_self() is less than the thread pointer */
	__u32 epoch; /* another for each time that a process is told, and for each child */
	struct py_layout at;
};
_Static_assert(sizeof(struct py_process) == 80, "py_process");
#define PY_GIL_BYTES 88 /* of it: a condition and a mutex. python.gilWaited */
#define PY_GIL_HOLDER 24 /* before it: struct gil. python.gilCond - gilHolder */
#define PY_CHILD (1u << 31) /* epochs that the kernel gives */

/* In the low bits of a frame's code, since code objects lie at multiples of 8. */
#define PY_ENTRY 1 /* the evaluation loop was entered with it */
#define PY_BEGINS 2 /* it has not begun to run */

struct py_frame {
	__u64 code; /* address, PY_ENTRY, PY_BEGINS; no address: a loop that runs nothing */
	__u32 mark; /* tells the code object from others at its address */
	__s32 instr; /* bytes from the first instruction */
};

/* How far a walk came: python.End. */
enum py_end {
	PY_END_OK, /* to the outermost frame */
	PY_END_CUT, /* there are more frames */
	PY_END_NOT_PYTHON, /* nothing is known of the process */
	PY_END_NO_THREAD, /* the thread runs no Python */
	PY_END_THREADS, /* too many threads to look for this one */
	PY_END_AMBIGUOUS, /* the thread is in two interpreters */
	PY_END_FAULT, /* memory that could not be read */
	PY_END_STRANGE, /* a frame that has no code object */
	PY_ENDS,
};

/* A walk. What was found are epoch, n, end and frames; the rest is its own. */
struct py_walk {
	__u32 epoch;
	__u32 n;
	__u32 end; /* enum py_end */
	__u32 interps; /* interpreters that were looked at */
	__u64 self;
	__u64 interp;
	__u64 thread;
	__u64 found;
	__u64 frame; /* the next one */
	__u64 raw[PY_RAW];
	struct py_frame frames[PY_FRAMES]; /* innermost first */
};

/* Characters of a str that were copied. */
struct py_text {
	__u16 bytes;
	__u8 kind; /* bytes a character, PY_KIND_ASCII, 0: it could not be read */
	__u8 cut; /* there are more */
};
#define PY_KIND_ASCII 8

/* A code object, before the first stack that it is in. Its line table follows. */
struct py_code_record {
	__u8 kind; /* RECORD_PY_CODE */
	__u8 flags; /* enum py_flags, of its interpreter */
	__u8 pad[2];
	__u32 tgid;
	__u64 code;
	__u32 mark;
	__u32 epoch;
	__u32 first; /* line */
	__u32 lines; /* bytes of its line table, 0: they are to be read from the process */
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
