// SPDX-License-Identifier: Apache-2.0
/*
 * `siblings ROUNDS`: a thread makes a call, then reads from a pipe, ROUNDS times. The thread that
 * writes there first gives up the CPU some times, on which three more threads of the process take
 * turns. All are on one CPU. It prints the ids of the caller and of the thread that writes, and
 * waits for a line.
 */
#include "truth.h"
#include <pthread.h>

#define YIELDS 20
#define TURN 100000 /* ns */

static int ask[2], answer[2];
static volatile pid_t writer;

static void nothing(void)
{
}

static void *write_there(void *arg)
{
	char c;

	writer = syscall(SYS_gettid);
	if (write(answer[1], "x", 1) != 1)
		return arg;
	while (read(ask[0], &c, 1) == 1) {
		for (int i = 0; i < YIELDS; i++)
			sched_yield();
		if (write(answer[1], "x", 1) != 1)
			break;
	}
	return arg;
}

static void *take_turns(void *arg)
{
	for (;;) {
		for (u64 end = now() + TURN; now() < end;)
			;
		sched_yield();
	}
	return arg;
}

int main(int argc, char **argv)
{
	pthread_t t;
	cpu_set_t one;
	char c;

	if (argc != 2)
		return 2;
	CPU_ZERO(&one);
	CPU_SET(sched_getcpu(), &one);
	in_runtime = nothing;
	if (sched_setaffinity(0, sizeof(one), &one) || pipe(ask) || pipe(answer) ||
	    pthread_create(&t, NULL, write_there, NULL) || read(answer[0], &c, 1) != 1)
		return 1;
	printf("%d %d\n", getpid(), writer);
	fflush(stdout);
	if (getchar() == EOF)
		return 1;
	for (int i = 0; i < 3; i++)
		if (pthread_create(&t, NULL, take_turns, NULL))
			return 1;
	for (int i = 0; i < atoi(argv[1]); i++) {
		cudaStreamSynchronize(NULL);
		if (write(ask[1], "x", 1) != 1 || read(answer[0], &c, 1) != 1)
			return 1;
	}
	return 0;
}
