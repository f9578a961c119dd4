// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* Calls traced() in the mode of its first argument, after a line on standard input. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline, noclone))

void traced(void);
int through_library(int (*f)(int), int depth);

static volatile int sink;

NOINLINE static int deep(int depth)
{
	if (depth <= 1)
		traced();
	else
		sink = deep(depth - 1);
	return depth + sink;
}

static void run_deep(const char *arg)
{
	deep(atoi(arg));
}

/* sub $8, %rsp; call *%rdi; add $8, %rsp; ret */
static const unsigned char code[] = { 0x48, 0x83, 0xec, 8, 0xff, 0xd7, 0x48, 0x83, 0xc4, 8, 0xc3 };

static void run_jit(const char *arg)
{
	void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC,
			  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	memcpy(page, code, sizeof(code));
	((void (*)(void (*)(void)))page)(traced);
}

/* Calls until standard input has another line, so that the new mapping becomes known. */
static void run_load(const char *arg)
{
	void *lib = dlopen(arg, RTLD_NOW);
	int (*through)(int (*)(int), int) = (int (*)(int (*)(int), int))dlsym(lib, "through_late");
	struct timespec pause = { 0, 2000000 };

	if (!through)
		exit(1);
	for (int i = 0; i < 2000; i++) {
		through(deep, 2);
		nanosleep(&pause, NULL);
	}
}

static void run_fork(const char *arg)
{
	for (int i = 0; i < atoi(arg); i++) {
		pid_t child = fork();

		if (!child) {
			through_library(deep, 3);
			_exit(0);
		}
		waitpid(child, NULL, 0);
	}
}

static void run_loop(const char *arg)
{
	int depth, count;

	sscanf(arg, "%d,%d", &depth, &count);
	for (int i = 0; i < count; i++)
		deep(depth);
}

/* Overwrites the return addresses of its own stack, then restores them. */
NOINLINE static void scribble(unsigned long with)
{
	unsigned long *at = __builtin_frame_address(0), saved[40];

	memcpy(saved, at, sizeof(saved));
	for (int i = 2; i < 40; i++)
		at[i] = with + (with > 4096 ? 0 : (unsigned long)(at + i + 1));
	traced();
	memcpy(at, saved, sizeof(saved));
}

NOINLINE static int room(int n)
{
	volatile long space[4];

	space[n & 3] = n;
	scribble(n == 0   ? 0
		 : n == 1 ? ~0UL
		 : n == 2 ? (unsigned long)scribble + 8
			  : (unsigned long)room + n);
	return space[n & 3];
}

static void run_scribble(const char *arg)
{
	for (int i = 0; i < atoi(arg); i++)
		sink = room(i);
}

static const struct {
	const char *name;
	void (*run)(const char *);
} modes[] = {
	{ "deep", run_deep }, { "jit", run_jit },   { "load", run_load },
	{ "fork", run_fork }, { "loop", run_loop }, { "scribble", run_scribble },
};

int main(int argc, char **argv)
{
	printf("ready\n");
	fflush(stdout);
	if (argc < 3 || getchar() == EOF)
		return 1;
	for (unsigned i = 0; i < sizeof(modes) / sizeof(modes[0]); i++)
		if (!strcmp(argv[1], modes[i].name))
			modes[i].run(argv[2]);
	return 0;
}
