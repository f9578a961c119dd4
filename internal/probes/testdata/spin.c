// SPDX-License-Identifier: Apache-2.0
/*
 * Makes a traced call, computes until a signal, makes another call if it has an argument, and
 * blocks until an input line.
 */
#include <signal.h>
#include <stdio.h>

int cudaEventQuery(long answer);

static volatile sig_atomic_t signaled;

static void on_signal(int number)
{
	signaled = number;
}

int main(int argc, char **argv)
{
	char line[16];

	(void)argv;
	signal(SIGUSR1, on_signal);
	puts("ready");
	fflush(stdout);
	if (!fgets(line, sizeof(line), stdin))
		return 1;
	cudaEventQuery(0);
	puts("computing");
	fflush(stdout);
	while (!signaled)
		;
	if (argc > 1)
		cudaEventQuery(0);
	return !fgets(line, sizeof(line), stdin);
}
