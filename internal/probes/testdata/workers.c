// SPDX-License-Identifier: Apache-2.0
/*
 * `workers DEPTH ROUNDS`: a thread makes a call, then reads from a pipe, to which 8 workers write in
 * turn, ROUNDS times each. Each worker waits until the thread is blocked. The workers are
 * descendants of the process, DEPTH generations away. Waits for a line before the workers are
 * started, and at the end.
 */
#include <stdio.h>
#include <stdlib.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#define WORKERS 8

int cudaEventQuery(long answer);

static int turn[WORKERS][2], result[2];

/* Is a process's first thread blocked? */
static int blocked(int pid)
{
	char path[32], state = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	f = fopen(path, "r");
	if (!f || fscanf(f, "%*d %*s %c", &state) != 1)
		_exit(1);
	fclose(f);
	return state == 'S';
}

static void give(int to)
{
	if (write(to, "x", 1) != 1)
		_exit(1);
}

static void take(int from)
{
	char c;

	if (read(from, &c, 1) != 1)
		_exit(1);
}

static void work(int n, int caller)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	give(result[1]);
	for (;;) {
		take(turn[n][0]);
		while (!blocked(caller))
			;
		give(result[1]);
	}
}

static void start(int depth, int caller)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (depth > 1) {
		if (!fork())
			start(depth - 1, caller);
	} else {
		for (int i = 0; i < WORKERS; i++)
			if (!fork())
				work(i, caller);
	}
	for (;;)
		pause();
}

int main(int argc, char **argv)
{
	char line[16];
	int rounds;

	if (argc != 3 || pipe(result))
		return 2;
	rounds = atoi(argv[2]);
	for (int i = 0; i < WORKERS; i++)
		if (pipe(turn[i]))
			return 1;
	puts("ready");
	fflush(stdout);
	if (!fgets(line, sizeof(line), stdin))
		return 1;
	if (!fork())
		start(atoi(argv[1]) - 1, getppid());
	for (int i = 0; i < WORKERS; i++)
		take(result[0]);
	cudaEventQuery(0);
	for (int i = 0; i < rounds * WORKERS; i++) {
		give(turn[i % WORKERS][1]);
		take(result[0]);
	}
	puts("done");
	fflush(stdout);
	return !fgets(line, sizeof(line), stdin);
}
