// SPDX-License-Identifier: Apache-2.0
/*
 * Faults: what is done to a victim from outside. Each says "ready" once it is at work, and
 * goes on until it is killed or whoever started it has gone.
 *
 * hog CPU [NICE|fifo]   takes a CPU; "fifo": with real-time priority
 */
#define _GNU_SOURCE
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <signal.h>
#include <unistd.h>

static void pin(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (cpu >= 0 && sched_setaffinity(0, sizeof(set), &set))
		abort();
}

static void ready(void)
{
	puts("ready");
	fflush(stdout);
}

static void hog(const char *how)
{
	struct sched_param p = { .sched_priority = 1 };

	if (!strcmp(how, "fifo") && sched_setscheduler(0, SCHED_FIFO, &p))
		puts("refused");
	else if (strcmp(how, "fifo") && nice(atoi(how)) == -1)
		abort();
	ready();
	for (;;)
		for (volatile int i = 0; i < 10000000; i++)
			;
}

int main(int argc, char **argv)
{
	if (argc < 3)
		return 2;
	prctl(PR_SET_NAME, argv[1]);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	pin(atoi(argv[2]));
	if (!strcmp(argv[1], "hog"))
		hog(argc > 3 ? argv[3] : "0");
	return 2;
}
