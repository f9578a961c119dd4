/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of the victim share. */
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

/* The file that the lab maps: what it says to the victim, and the victim's own clock. */
struct step_log {
	_Atomic uint64_t
		mode; /* bit 0: operations that begin with "!" are done, those with "~" are not */
	_Atomic uint64_t count; /* steps that are done */
	uint64_t pids[14]; /* of the victim's processes, its own first */
	struct {
		int64_t begin, end; /* ns of the wall clock */
		uint64_t kind; /* which of the operations that are not in every step were in it */
	} step[MAX_STEPS];
};

/* One thread or process that repeats a script. */
struct actor {
	struct op_call {
		const struct op *op;
		long arg[ARGS];
		long every; /* done each so many times */
		char when; /* '!': only with the fault on; '~': only with it off; 0: always */
	} ops[MAX_OPS];
	int n;
	int main; /* it keeps the clock */
	uint64_t steps;
	void *stream, *device, *host, *pageable;
	size_t device_size, host_size;
	int saved, direct, cached; /* files */
	off_t offset;
	char *buffer, *arena;
	int socket;
};

/* An operation of a script; README of the lab: the doc.go of package incidents. */
struct op {
	const char *name;
	void (*run)(struct actor *a, const long *arg);
};

extern const struct op host_ops[], cuda_ops[], nccl_ops[];
extern struct step_log *victim_log;
extern int batches[2]; /* the pipe between workers and the trainer */
extern const char *dir; /* for files */
extern long port; /* of the peer */

void need(int ok, const char *what);
int64_t wall_ns(void);
int64_t cpu_ns(void);
void burn(long us);
void cuda_begin(void);
void *stream_of(struct actor *a);
void *device_memory(struct actor *a, size_t n);
int rank_of(const struct actor *a, const char *op, int *ranks);

#endif
