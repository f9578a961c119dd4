// SPDX-License-Identifier: Apache-2.0
/*
 * Competing processes: hog spin CPU, hog burst CPU ON OFF (us, at a real-time priority), hog
 * crowd CPU ON OFF (64 named threads, one after the other), hog move TID A B US
 * (moves a thread back and forth between two CPUs).
 */
#include "truth.h"
#include <errno.h>
#include <pthread.h>
#include <sys/prctl.h>

static int argument(char **argv, int i)
{
	return argv[i] ? atoi(argv[i]) : -1;
}

/* Reports whether real-time priority is allowed. */
static int real_time(void)
{
	struct sched_param p = { .sched_priority = 10 };

	return !sched_setscheduler(0, SCHED_FIFO, &p);
}

static void pause_for(u64 ns)
{
	struct timespec t = { .tv_nsec = ns };

	nanosleep(&t, NULL);
}

static void move(int tid, int to, u64 ns)
{
	cpu_set_t cpus;

	pause_for(ns);
	CPU_ZERO(&cpus);
	CPU_SET(to, &cpus);
	if (sched_setaffinity(tid, sizeof(cpus), &cpus))
		exit(errno != ESRCH); /* the thread has exited */
}

/* One of the crowd: it runs once a period. */
static void *member(void *name)
{
	prctl(PR_SET_NAME, name);
	crowd_turns();
	return NULL;
}

static void crowd(void)
{
	static char names[CROWD][16];
	pthread_t thread;

	for (int i = 0; i < CROWD; i++) {
		snprintf(names[i], sizeof(names[i]), "member-%d", i);
		if (pthread_create(&thread, NULL, member, names[i]))
			exit(1);
	}
	for (;;)
		pause();
}

int main(int argc, char **argv)
{
	const u64 ns = 1000;

	if (argc < 3)
		return 2;
	prctl(PR_SET_TIMERSLACK, 1);
	if (strcmp(argv[1], "move"))
		pin(argument(argv, 2));
	if (strcmp(argv[1], "spin") && !real_time()) {
		printf("refused\n");
		return 0;
	}
	printf("ready\n");
	fflush(stdout);
	getchar();
	if (!strcmp(argv[1], "crowd")) {
		crowd_on = ns * argument(argv, 3);
		crowd_off = ns * argument(argv, 4);
		crowd();
	}
	if (!strcmp(argv[1], "burst"))
		for (;; pause_for(ns * argument(argv, 4)))
			spin(ns * argument(argv, 3));
	if (!strcmp(argv[1], "move"))
		for (;;) {
			move(argument(argv, 2), argument(argv, 3), ns * argument(argv, 5));
			move(argument(argv, 2), argument(argv, 4), ns * argument(argv, 5));
		}
	for (;;)
		;
}
