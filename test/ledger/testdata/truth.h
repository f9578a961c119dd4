// SPDX-License-Identifier: Apache-2.0
/* What a program knows of its own time, by clocks that are not the ledger's. */
#pragma once
#define _GNU_SOURCE
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

typedef uint64_t u64;

#define MAX_HOGS 4
#define UNKNOWN (~0ULL) /* blocked time that nobody planned */

/* The two traced functions. */
int cudaStreamSynchronize(void *stream);
int cuStreamSynchronize(void *stream);
extern void (*in_runtime)(void);
extern void (*in_driver)(void);

/* The command line. */
struct settings {
	unsigned calls;
	u64 ns; /* how long a call lasts */
	int cpu, helper; /* where the thread and its helper run, -1: anywhere */
	const char *dir; /* on a disk */
	const char *stat; /* cpu.stat of the thread's cgroup */
	volatile u64 *witness; /* counts what the kernel shows of the thread */
	clockid_t hog[MAX_HOGS];
	int hogs;
};
extern struct settings set;

/* What two threads, or two processes, tell each other. */
struct shared {
	volatile unsigned armed; /* calls that are about to wait */
	volatile unsigned released; /* calls that need not wait any more */
	volatile unsigned done;
	volatile int helper; /* its thread id */
	volatile u64 entered, waked; /* when the last call began to wait, and was woken */
};
extern struct shared *shared;

/* One way to spend a call. */
struct scenario {
	const char *name;
	void (*setup)(void);
	void (*body)(void); /* inside the traced call */
	void (*between)(void); /* before each call but the first */
	void (*wake)(void); /* by the helper, once a call has waited long enough */
	int process; /* the helper is the parent process, which is not traced */
	int sleepy; /* the helper sleeps until then, others spin */
};
extern const struct scenario scenarios[];

extern u64 waited; /* set by a body: how long it was blocked */
extern unsigned turn; /* number of the call */
extern pid_t victim; /* the parent's: whose helper it is */

static inline u64 now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ULL + t.tv_nsec;
}

static inline void spin(u64 ns)
{
	for (u64 end = now() + ns; now() < end;)
		;
}

#define CROWD 64
static u64 crowd_on, crowd_off;

/* All of a crowd are woken at a time, have a turn each, and sleep. */
static inline void crowd_turns(void)
{
	u64 period = CROWD * crowd_on + crowd_off;
	struct timespec t;

	for (u64 next = now() / period * period;; spin(crowd_on)) {
		next += period;
		t.tv_sec = next / 1000000000;
		t.tv_nsec = next % 1000000000;
		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL);
	}
}

static inline void pin(int cpu)
{
	cpu_set_t cpus;

	if (cpu < 0)
		return;
	CPU_ZERO(&cpus);
	CPU_SET(cpu, &cpus);
	if (sched_setaffinity(0, sizeof(cpus), &cpus)) {
		perror("sched_setaffinity");
		exit(1);
	}
}

void must(int ok, const char *what);
void traced(int driver, void (*body)(void)); /* one measured call */
