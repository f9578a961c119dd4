// SPDX-License-Identifier: Apache-2.0
/*
 * Makes exact numbers of calls: `worker MODE N`, N calls each time.
 * calls: at once. late: loads the library first. forks: 40 children, each makes
 * the calls, every second one by an exec of this program.
 * hold: then waits. errors: all fail. many: 600 children, one after the other, then waits.
 * joins: 100 threads, one after the other, that end while they are joined; then waits.
 * killed: 300 children, one after the other, of four threads each, that kill themselves; then waits.
 * stay: makes calls until it is killed, or its parent has ended.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static int (*sync_)(void *);

static void load(void)
{
	void *h = dlopen(getenv("LIBCUDART"), RTLD_NOW);

	if (!h) {
		fprintf(stderr, "%s\n", dlerror());
		exit(1);
	}
	sync_ = dlsym(h, "cudaStreamSynchronize");
}

static void calls(int n, long arg)
{
	for (int i = 0; i < n; i++)
		sync_((void *)arg);
}

static void *end_late(void *unused)
{
	usleep(200);
	return unused;
}

static void wait_line(const char *say)
{
	puts(say);
	fflush(stdout);
	while (getchar() > '\n')
		;
}

static void many(int n)
{
	for (int i = 0; i < 600; i++) {
		if (!fork()) {
			calls(n, 0);
			_exit(0);
		}
		wait(NULL);
	}
	wait_line("done");
}

static void *stay(void *unused)
{
	pause();
	return unused;
}

static void killed(void)
{
	pthread_t thread;

	for (int i = 0; i < 300; i++) {
		if (!fork()) {
			for (int j = 0; j < 3; j++)
				pthread_create(&thread, NULL, stay, NULL);
			kill(getpid(), SIGKILL);
		}
		wait(NULL);
	}
	wait_line("done");
}

static int joins(int n)
{
	pthread_t thread;

	for (int i = 0; i < 100; i++) {
		calls(n, 0);
		if (pthread_create(&thread, NULL, end_late, NULL) || pthread_join(thread, NULL))
			return 1;
	}
	wait_line("done");
	return 0;
}

int main(int argc, char **argv)
{
	const char *mode = argv[1];
	int n = atoi(argv[2]), status;
	pid_t parent = getppid();

	if (strcmp(mode, "late"))
		load();
	if (strcmp(mode, "now"))
		wait_line("ready");
	if (!strcmp(mode, "late")) {
		load();
		wait_line("loaded");
	}
	if (!strcmp(mode, "forks")) {
		for (int i = 0; i < 40; i++) {
			if (fork())
				continue;
			if (i % 2 && getenv("LIBCUDART_EXEC"))
				setenv("LIBCUDART", getenv("LIBCUDART_EXEC"), 1);
			if (i % 2)
				execl(argv[0], argv[0], "now", argv[2], NULL);
			calls(n, 0);
			_exit(0);
		}
		while (wait(&status) > 0)
			if (status)
				return 1;
	}
	if (!strcmp(mode, "many")) {
		many(n);
		return 0;
	}
	if (!strcmp(mode, "killed")) {
		killed();
		return 0;
	}
	if (!strcmp(mode, "joins"))
		return joins(n);
	if (!strcmp(mode, "hold")) {
		calls(n, 0);
		wait_line("done");
		return 0;
	}
	do
		calls(n, !strcmp(mode, "errors") ? 5 : 0);
	while (!strcmp(mode, "stay") && getppid() == parent);
	return 0;
}
