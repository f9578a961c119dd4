// SPDX-License-Identifier: Apache-2.0
/* A program's knowledge of its own time, by clocks other than the ledger's. */
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
#define UNKNOWN (~0ULL) /* unplanned blocked time */

/* The two traced functions. */
int cudaStreamSynchronize(void *stream);
int cuStreamSynchronize(void *stream);
extern void (*in_runtime)(void);
extern void (*in_driver)(void);

/* The command line. */
struct settings {
	unsigned calls;
	u64 ns; /* length of a call */
	int cpu, helper; /* CPUs of the thread and its helper; -1: any */
	const char *dir; /* directory on a disk */
	const char *stat; /* cpu.stat of the thread's cgroup */
	volatile u64 *witness; /* counters of the kernel's events for the thread */
	clockid_t hog[MAX_HOGS];
	int hogs;
};
extern struct settings set;

/* Memory shared by two threads or two processes. */
struct shared {
	volatile unsigned armed; /* calls that are about to wait */
	volatile unsigned released; /* calls that need not wait any more */
	volatile unsigned done;
	volatile int helper; /* thread id of the helper */
	volatile u64 entered, waked; /* when the last call began to wait, and was woken */
};
extern struct shared *shared;

/* One way to spend a call. */
struct scenario {
	const char *name;
	void (*setup)(void);
	void (*body)(void); /* inside the traced call */
	void (*between)(void); /* before each call but the first */
	void (*wake)(void); /* called by the helper after a call has waited long enough */
	int process; /* the helper is the parent process, which is not traced */
	int sleepy; /* the helper sleeps until then; other helpers spin */
};
extern const struct scenario scenarios[];

extern u64 waited; /* set by a body: its blocked time */
extern unsigned turn; /* index of the call */
extern pid_t victim; /* set in a parent: the process that it helps */

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

/* All threads of a crowd wake at the same time, run one after the other, and sleep. */
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
void traced(int driver, void (*body)(void)); /* makes one measured call */
