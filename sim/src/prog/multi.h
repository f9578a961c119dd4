/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_MULTI_H
#define SIM_MULTI_H

#include "prog.h"

struct tally {
	u64 entered, returned; /* calls of cudaStreamSynchronize made by this program */
	u64 errors;
	u64 children, children_failed;
	u64 inner; /* calls made inside another call */
	int last_error;
};

extern struct tally tally;
extern u64 count, before, depth;
extern char *self_path;

void add(u64 *n, u64 v);
int synchronize(void);
void reap(int pid, int want);

/* multi_incall.c */
int fork_in_call(void);
int exec_in_call(void);
int longjmp_out(void);
int siglongjmp_out(void);
int signal_in_call(void);
int altstack(void);
int nest(void);
int thread_exit(void);
int thread_leave(void);
int sigkill(void);
int hang(void);

/* multi_misuse.c */
int misuse(void);

#endif
