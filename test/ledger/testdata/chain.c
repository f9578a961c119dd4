// SPDX-License-Identifier: Apache-2.0
/*
 * `chain HOPS ROUNDS US`: a thread makes a call, then reads from a pipe, ROUNDS times. The process
 * that writes there waits for one behind it, and so on for HOPS processes. The first thread asks
 * the last process, which sleeps for US. It prints the ids of the processes, the caller's first,
 * and waits for a line. Then it runs the rounds, and again for each line "more".
 */
#include "truth.h"
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>

#define MOST 16

static int ends[MOST][2]; /* of the pipe to process n from the process behind it */
static int hops, rounds, us;
static volatile pid_t *pids;

static void nothing(void)
{
}

static void take(int from)
{
	char c;

	if (read(ends[from][0], &c, 1) != 1)
		_exit(0);
}

static void give(int to)
{
	if (write(ends[to][1], "x", 1) != 1)
		_exit(0);
}

/* Waits for a line; reports whether it asks for more. */
static int line(void)
{
	int c, first = getchar();

	for (c = first; c != '\n' && c != EOF;)
		c = getchar();
	return first == 'm';
}

/* Process n of the chain. Each process is a child of the previous one. */
static void behind(int n)
{
	struct timespec t = { .tv_nsec = us * 1000L };

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	pids[n] = getpid();
	if (n < hops && !fork())
		behind(n + 1);
	give(0); /* ready */
	take(MOST - 1);
	for (;;) {
		take(n);
		if (n == hops)
			nanosleep(&t, NULL);
		give(n - 1);
	}
}

int main(int argc, char **argv)
{
	if (argc != 4)
		return 2;
	hops = atoi(argv[1]);
	rounds = atoi(argv[2]);
	us = atoi(argv[3]);
	pids = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (pids == MAP_FAILED)
		return 1;
	in_runtime = nothing;
	for (int i = 0; i < MOST; i++)
		if (pipe(ends[i]))
			return 1;
	if (!fork())
		behind(1);
	for (int i = 0; i < hops; i++)
		take(0);
	printf("%d", getpid());
	for (int i = 1; i <= hops; i++)
		printf(" %d", pids[i]);
	printf("\n");
	fflush(stdout);
	line();
	for (int i = 0; i < hops; i++)
		give(MOST - 1);
	do {
		for (int i = 0; i < rounds; i++) {
			cudaStreamSynchronize(NULL);
			give(hops); /* starts a round */
			take(0);
		}
		printf("done\n");
		fflush(stdout);
	} while (line());
	return 0;
}
