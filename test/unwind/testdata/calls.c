// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * Calls traced() from stacks of many kinds, in a random but repeatable order: `calls COUNT`.
 * It first waits for a line on its standard input.
 */
#define _GNU_SOURCE
#include <alloca.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline, noclone))

/* In lib.c. */
void traced(void);
int through_library(int (*f)(int), int depth);
int through_sort(int (*f)(int), int depth);

static unsigned long long seed = 42;
static volatile int sink;

static unsigned pick(unsigned n)
{
	seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
	return (unsigned)(seed >> 33) % n;
}

static int go_on(int depth);

NOINLINE static int leaf(int depth)
{
	traced();
	return depth + 1;
}

NOINLINE static int many_registers(int depth)
{
	int a = pick(9), b = pick(9), c = pick(9), d = pick(9), e = pick(9), f = pick(9);
	int r = go_on(depth);

	return r + a * b + c * d + e * f;
}

NOINLINE static int large_frame(int depth)
{
	volatile char room[5000];

	room[depth] = depth;
	return go_on(depth) + room[depth];
}

NOINLINE static int frame_of_any_size(int depth)
{
	char *room = alloca(16 + pick(1000));

	memset(room, depth, 16);
	sink = room[3];
	return go_on(depth) + room[7];
}

typedef float vector __attribute__((vector_size(32)));

NOINLINE static int aligned_frame(int depth)
{
	volatile vector v[4] __attribute__((aligned(64)));
	char *room = alloca(16 + pick(100));

	v[1] = (vector){ depth };
	memset(room, depth, 16);
	sink = room[3];
	return go_on(depth) + (int)v[1][0] + room[5];
}

NOINLINE static int tail_call(int depth)
{
	if (pick(2))
		return many_registers(depth);
	return large_frame(depth);
}

static jmp_buf out_of_here;

NOINLINE static void jumps(int depth)
{
	sink = go_on(depth);
	longjmp(out_of_here, 1);
}

/* The call is the last instruction: its return address is in the next function. */
NOINLINE static int never_returns(int depth)
{
	jmp_buf before;

	memcpy(before, out_of_here, sizeof(before));
	if (!setjmp(out_of_here)) {
		jumps(depth);
		__builtin_unreachable();
	}
	memcpy(out_of_here, before, sizeof(before));
	return depth;
}

static int signal_depth;

static void on_signal(int n)
{
	int depth = signal_depth;

	sink = n;
	sink = go_on(depth);
}

NOINLINE static int by_signal(int depth)
{
	signal_depth = depth;
	return raise(pick(2) ? SIGUSR1 : SIGUSR2);
}

static void on_fault(int n, siginfo_t *info, void *context)
{
	((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP] += 2;
	on_signal(n);
}

/* The signal interrupts an instruction that is not a call. */
NOINLINE static int by_fault(int depth)
{
	signal_depth = depth;
	__asm__ volatile("ud2");
	return depth;
}

NOINLINE static int by_library(int depth)
{
	return through_library(go_on, depth);
}

NOINLINE static int by_sort(int depth)
{
	return through_sort(go_on, depth);
}

static void *thread_main(void *depth)
{
	sink = go_on(*(int *)depth);
	return NULL;
}

NOINLINE static int by_thread(int depth)
{
	pthread_t t;

	pthread_create(&t, NULL, thread_main, &depth);
	pthread_join(t, NULL);
	return depth;
}

static ucontext_t here, there;
static int context_depth;

static void context_main(void)
{
	sink = go_on(context_depth);
}

NOINLINE static int by_context(int depth)
{
	static char *stack;
	static int busy;

	if (busy)
		return many_registers(depth);
	busy = 1;
	if (!stack)
		stack = malloc(1 << 20);
	context_depth = depth;
	getcontext(&there);
	there.uc_stack.ss_sp = stack;
	there.uc_stack.ss_size = 1 << 20;
	there.uc_link = &here;
	makecontext(&there, context_main, 0);
	swapcontext(&here, &there);
	busy = 0;
	return depth;
}

NOINLINE static int go_on(int depth)
{
	static int (*const kinds[])(int) = {
		many_registers, large_frame,   frame_of_any_size, aligned_frame,
		tail_call,      never_returns, by_signal,         by_fault,
		by_library,     by_sort,       by_thread,         by_context,
	};

	if (depth <= 0)
		return leaf(depth);
	return kinds[pick(sizeof(kinds) / sizeof(kinds[0]))](depth - 1) + 1;
}

/* longjmp leaves handlers, so no signal may be blocked in one or use an alternate stack. */
static void handle(int n, int flags)
{
	struct sigaction a = { .sa_handler = on_signal, .sa_flags = SA_NODEFER | flags };

	if (flags & SA_SIGINFO)
		a.sa_sigaction = on_fault;
	sigaction(n, &a, NULL);
}

int main(int argc, char **argv)
{
	int count = argc > 1 ? atoi(argv[1]) : 100;

	handle(SIGUSR1, 0);
	handle(SIGUSR2, SA_RESTART);
	handle(SIGILL, SA_SIGINFO);
	printf("ready\n");
	fflush(stdout);
	if (getchar() == EOF)
		return 1;
	for (int i = 0; i < count; i++)
		go_on(pick(14));
	return 0;
}
