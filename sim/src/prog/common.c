/* SPDX-License-Identifier: Apache-2.0 */
#include "prog.h"

static void usage_of(int fd, const struct option *o, int n, const char *usage)
{
	dprintf(fd, "%s\n", usage);
	for (int i = 0; i < n; i++)
		dprintf(fd, "  --%s%s\n      %s\n", o[i].name,
			o[i].kind == 'f'   ? ""
			: o[i].kind == 'n' ? " N"
					   : " TEXT",
			o[i].help);
}

int options(int argc, char **argv, const struct option *o, int n, const char *usage,
	    const char **rest, int max_rest)
{
	int n_rest = 0;

	for (int a = 1; a < argc; a++) {
		const struct option *found = NULL;
		char *end = NULL;

		if (!strcmp(argv[a], "--help")) {
			usage_of(1, o, n, usage);
			exit(0);
		}
		if (strncmp(argv[a], "--", 2) && n_rest < max_rest) {
			rest[n_rest++] = argv[a];
			continue;
		}
		for (int i = 0; i < n && !strncmp(argv[a], "--", 2); i++)
			if (!strcmp(argv[a] + 2, o[i].name))
				found = &o[i];
		if (!found || (found->kind != 'f' && ++a == argc)) {
			dprintf(2, "%s: bad argument %s (--help lists all)\n", argv[0],
				argv[a < argc ? a : argc - 1]);
			exit(2);
		}
		if (found->kind == 'f')
			*(u64 *)found->value = 1;
		else if (found->kind == 's')
			*(const char **)found->value = argv[a];
		else
			*(u64 *)found->value = strtoull(argv[a], &end, 0);
		if (found->kind == 'n' && (end == argv[a] || *end)) {
			dprintf(2, "%s: --%s wants a number, not %s\n", argv[0], found->name,
				argv[a]);
			exit(2);
		}
	}
	return n_rest;
}

void die(const char *what, int err)
{
	dprintf(2, "%s: error %d\n", what, err);
	exit(1);
}

void check(const char *what, int err)
{
	if (err)
		die(what, err);
}

/* splitmix64: the same numbers for the same seed on every machine. */
u64 random_next(u64 *state)
{
	u64 z = *state += 0x9e3779b97f4a7c15ull;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ z >> 27) * 0x94d049bb133111ebull;
	return z ^ z >> 31;
}

void sleep_until(u64 at)
{
	struct timespec ts = { (s64)(at / 1000000000ull), (s64)(at % 1000000000ull) };

	while (now_ns() < at)
		syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC, TIMER_ABSTIME, &ts, NULL);
}

void sleep_ns(u64 ns)
{
	sleep_until(now_ns() + ns);
}

void pin_to(u64 cpu)
{
	u64 mask[16] = { 0 };

	if (cpu == NO_VALUE)
		return;
	if (cpu < 1024)
		mask[cpu / 64] = 1ull << cpu % 64;
	if (sched_setaffinity(0, sizeof(mask), mask))
		dprintf(2, "no CPU %llu to run on\n", (unsigned long long)cpu);
}

/* The simulated GPU reads its settings at the first CUDA call, so a program may set them. */
void set_env_number(const char *name, u64 v)
{
	char text[24];

	if (v == NO_VALUE)
		return;
	snprintf(text, sizeof(text), "%llu", (unsigned long long)v);
	setenv(name, text, 1);
}

/* Prints "ready PID" and waits for a line, so that probes can be attached first. */
void hold_for_line(void)
{
	char c = 0;

	dprintf(1, "ready %d\n", getpid());
	while (c != '\n' && read(0, &c, 1) == 1)
		;
}

/* Keeps the CPU busy, as work between CUDA calls does. */
void burn_cpu(u64 ns)
{
	u64 end = now_ns() + ns;

	while (ns && now_ns() < end)
		cpu_relax();
}

/* Returns one thread's share of a total; the shares add up to it. */
u64 thread_count(u64 total, u64 threads, u64 index)
{
	return total / threads + (index < total % threads);
}
