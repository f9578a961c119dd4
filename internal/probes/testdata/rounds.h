/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads that make rounds of calls: a number for each line, or, for a line with "l", until the
 * next line. After each, tell prints the number of calls. A round is identified by its number.
 */
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

#define THREADS 4

static void make_round(int number);
static void tell(void);

static pthread_barrier_t begin, end;
static volatile int load, stop, rounds;

static void *work(void *arg)
{
	for (;;) {
		pthread_barrier_wait(&begin);
		if (stop)
			return arg;
		for (int i = 0; i < rounds || load; i++)
			make_round(i);
		pthread_barrier_wait(&end);
	}
}

static void make_rounds(int of_each_line)
{
	pthread_t t[THREADS];
	char line[16];

	rounds = of_each_line;
	pthread_barrier_init(&begin, 0, THREADS + 1);
	pthread_barrier_init(&end, 0, THREADS + 1);
	for (int i = 0; i < THREADS; i++)
		pthread_create(&t[i], 0, work, 0);
	puts("ready");
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin)) {
		load = line[0] == 'l';
		pthread_barrier_wait(&begin);
		if (load) {
			puts("loaded");
			fflush(stdout);
			if (!fgets(line, sizeof(line), stdin))
				_exit(1);
			load = 0;
		}
		pthread_barrier_wait(&end);
		tell();
		fflush(stdout);
	}
	stop = 1;
	pthread_barrier_wait(&begin);
	for (int i = 0; i < THREADS; i++)
		pthread_join(t[i], 0);
}
