/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the parts of the victim. */
#ifndef VICTIM_H
#define VICTIM_H

#define _GNU_SOURCE
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ARGS 4
#define MAX_OPS 24
#define MAX_ACTORS 16
#define MAX_STEPS (1 << 17)
#define TOKEN 4096 /* bytes of a batch in the pipe: written and read at once */

/* The file that the lab maps: the lab's commands, and the victim's own clock. */
struct step_log {
	_Atomic uint64_t
		mode; /* bit 0: the fault is on, so "!" operations run and "~" operations do not */
	_Atomic uint64_t count; /* completed steps */
	uint64_t pids[14]; /* the victim's processes, the main one first */
	struct {
		int64_t begin, end; /* ns of the wall clock */
		uint64_t kind; /* bits of the step's operations that are not in every step */
	} step[MAX_STEPS];
};

/* A thread or process that repeats a script. */
struct actor {
	struct op_call {
		const struct op *op;
		long arg[ARGS];
		long every; /* runs every this many times */
		char when; /* '!': only with the fault on; '~': only with it off; 0: always */
	} ops[MAX_OPS];
	int n;
	int main; /* keeps the clock */
	uint64_t steps;
	void *stream, *device, *host, *pageable;
	size_t device_size, host_size;
	int saved, direct, cached; /* file descriptors */
	off_t offset;
	char *buffer, *arena;
	int socket;
};

/* An operation of a script. */
struct op {
	const char *name;
	void (*run)(struct actor *a, const long *arg);
};

extern const struct op host_ops[], cuda_ops[], nccl_ops[];
extern struct step_log *victim_log;
extern int batches[2]; /* the pipe between workers and the trainer */
extern const char *dir; /* directory for files */
extern long port; /* port of the peer */

void need(int ok, const char *what);
int64_t wall_ns(void);
int64_t cpu_ns(void);
void burn(long us);
void cuda_begin(void);
void *stream_of(struct actor *a);
void *device_memory(struct actor *a, size_t n);
int rank_of(const struct actor *a, const char *op, int *ranks);

#endif
