// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* The ends of what a system call receives or sends: where HTTP/1.1 requests and responses begin and end. */
#pragma once

#define PF_KTHREAD 0x00200000
#define PF_IO_WORKER 0x00000010

#if defined(__TARGET_ARCH_x86)
#define SYSCALL_NR(regs) ((regs)->orig_ax)
#define SYSCALL_ARG2(regs) ((regs)->si)
#define SYSCALL_ARG3(regs) ((regs)->dx)
#else
#define SYSCALL_NR(regs) BPF_CORE_READ((struct pt_regs___syscall *)(regs), syscallno)
#define SYSCALL_ARG2(regs) ((regs)->user_regs.regs[1])
#define SYSCALL_ARG3(regs) ((regs)->user_regs.regs[2])
#endif

/* System calls whose second argument is a buffer, a list of buffers, or a message. 0: none. */
const volatile __u32 buffer_calls[4] = {}; /* read, recvfrom, write, sendto */
const volatile __u32 vector_calls[2] = {}; /* readv, writev */
const volatile __u32 message_calls[2] = {}; /* recvmsg, sendmsg */

/* The first and last 16 bytes of a buffer in user space. */
struct text {
	__u64 first[2];
	__u64 last[2]; /* of a shorter last buffer: its bytes at the end, zeros before them */
};

struct vector {
	__u64 at;
	__u64 bytes;
};

/* Finds the buffers of the current system call: the first and the last one. */
static __always_inline bool find_buffers(struct vector *first, struct vector *last)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct pt_regs *regs = (struct pt_regs *)bpf_task_pt_regs(task);
	struct vector list;
	__u32 nr = SYSCALL_NR(regs);

	if (task->flags & (PF_KTHREAD | PF_IO_WORKER))
		return false;
	first->at = SYSCALL_ARG2(regs);
	first->bytes = SYSCALL_ARG3(regs);
	*last = *first;
	if (nr == buffer_calls[0] || nr == buffer_calls[1] || nr == buffer_calls[2] ||
	    nr == buffer_calls[3])
		return true;
	list = *first;
	if (nr == message_calls[0] || nr == message_calls[1]) {
		/* msghdr: the list and its length come after the address and its length */
		if (bpf_probe_read_user(&list, sizeof(list), (void *)(first->at + 16)))
			return false;
	} else if (nr != vector_calls[0] && nr != vector_calls[1]) {
		return false;
	}
	return list.bytes && !bpf_probe_read_user(first, sizeof(*first), (void *)list.at) &&
	       !bpf_probe_read_user(last, sizeof(*last),
				    (void *)(list.at + (list.bytes - 1) * sizeof(*last)));
}

/* Moves the n bytes at the start of t->last to its end. */
static __always_inline void align_last(struct text *t, __u32 n)
{
	__u32 bits = (16 - n) % 8 * 8;

	if (n > 8) {
		t->last[1] = t->last[1] << bits | t->last[0] >> (64 - bits);
		t->last[0] <<= bits;
	} else {
		t->last[1] = t->last[0] << bits;
		t->last[0] = 0;
	}
}

/* Reads the ends of what the current system call transfers. */
static __always_inline bool read_text(struct text *t, __u64 bytes)
{
	struct vector first, last;
	__u32 head, tail;

	*t = (struct text){};
	if (!find_buffers(&first, &last))
		return false;
	if (first.at == last.at && last.bytes > bytes)
		last.bytes = bytes;
	head = first.bytes < bytes ? first.bytes : bytes;
	if (head > sizeof(t->first))
		head = sizeof(t->first);
	if (bpf_probe_read_user(t->first, head, (void *)first.at))
		return false;
	tail = last.bytes < sizeof(t->last) ? last.bytes : sizeof(t->last);
	if (bpf_probe_read_user(t->last, tail, (void *)(last.at + last.bytes - tail)))
		return false;
	if (tail < sizeof(t->last))
		align_last(t, tail);
	return true;
}

/* Up to eight characters as a little-endian number. */
#define C(c, n) ((__u64)(c) << (n)*8)
#define FIRST(n) (~0ULL >> (64 - (n)*8))
#define IS(text, n, word) (((text)&FIRST(n)) == (word))

#define W_POST (C('P', 0) | C('O', 1) | C('S', 2) | C('T', 3) | C(' ', 4) | C('/', 5))
#define W_GET (C('G', 0) | C('E', 1) | C('T', 2) | C(' ', 3) | C('/', 4))
#define W_PUT (C('P', 0) | C('U', 1) | C('T', 2) | C(' ', 3) | C('/', 4))
#define W_HEAD (C('H', 0) | C('E', 1) | C('A', 2) | C('D', 3) | C(' ', 4) | C('/', 5))
#define W_PATCH (C('P', 0) | C('A', 1) | C('T', 2) | C('C', 3) | C('H', 4) | C(' ', 5) | C('/', 6))
#define W_DELETE                                                                                   \
	(C('D', 0) | C('E', 1) | C('L', 2) | C('E', 3) | C('T', 4) | C('E', 5) | C(' ', 6) |       \
	 C('/', 7))
#define W_OPTIONS                                                                                  \
	(C('O', 0) | C('P', 1) | C('T', 2) | C('I', 3) | C('O', 4) | C('N', 5) | C('S', 6) |       \
	 C(' ', 7))
#define W_HTTP2                                                                                    \
	(C('P', 0) | C('R', 1) | C('I', 2) | C(' ', 3) | C('*', 4) | C(' ', 5) | C('H', 6) |       \
	 C('T', 7))
#define W_HTTP1 (C('H', 0) | C('T', 1) | C('T', 2) | C('P', 3) | C('/', 4) | C('1', 5) | C('.', 6))
#define W_TLS (C(0x16, 0) | C(0x03, 1))
#define W_DONE (C('[', 0) | C('D', 1) | C('O', 2) | C('N', 3) | C('E', 4) | C(']', 5))
#define CRLF(n) (C('\r', n) | C('\n', (n) + 1))
#define W_BLANK (CRLF(0) | CRLF(2)) /* the end of a head */
#define W_CHUNK (C('0', 0) | CRLF(1) | CRLF(3)) /* the last chunk */
#define W_END_CHUNK (CRLF(0) | W_CHUNK << 16) /* and the end of the one before */

static __always_inline bool begins_request(__u64 w)
{
	return IS(w, 6, W_POST) || IS(w, 5, W_GET) || IS(w, 5, W_PUT) || IS(w, 6, W_HEAD) ||
	       IS(w, 7, W_PATCH) || IS(w, 8, W_DELETE) || IS(w, 8, W_OPTIONS);
}

/* The text ends a head. */
static __always_inline bool ends_head(const struct text *t)
{
	return t->last[1] >> 32 == W_BLANK;
}

/* The text ends a response in chunks. */
static __always_inline bool ends_chunks(const struct text *t)
{
	return t->last[1] == W_CHUNK << 24 || t->last[1] >> 8 == W_END_CHUNK;
}

/* The text ends a chunk, or an event of a stream. */
static __always_inline bool ends_piece(const struct text *t)
{
	return t->last[1] >> 48 == CRLF(0) || t->last[1] >> 48 == (C('\n', 0) | C('\n', 1));
}

/* The text ends a stream of OpenAI's protocol: "data: [DONE]", two ends of line, and a chunk's. */
static __always_inline bool ends_stream(const struct text *t)
{
	return IS(t->last[1], 6, W_DONE) || IS(t->last[0] >> 48 | t->last[1] << 16, 6, W_DONE) ||
	       IS(t->last[0] >> 32 | t->last[1] << 32, 6, W_DONE);
}
