// SPDX-License-Identifier: Apache-2.0
/* Computes in decode() before each CUDA call, itself ("self") or in a process that it starts and
 * that makes no CUDA calls ("program"), over pipes. Begins when a line of input arrives. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

extern int cudaDeviceSynchronize(void);

static int take_input, ask;

__attribute__((noinline)) void decode(void)
{
	for (volatile long i = 0; i < 100000000; i++)
		;
}

static void work(int take, int give)
{
	char c;

	while (read(take, &c, 1) == 1) {
		decode();
		if (write(give, "x", 1) != 1)
			break;
	}
	exit(0);
}

static void start(const char *self)
{
	int asked[2], given[2];
	char take[16], give[16];

	if (pipe(asked) || pipe(given))
		exit(1);
	snprintf(take, sizeof(take), "%d", asked[0]);
	snprintf(give, sizeof(give), "%d", given[1]);
	if (!fork()) {
		close(asked[1]);
		execl(self, self, "worker", take, give, NULL);
		_exit(127);
	}
	ask = asked[1];
	take_input = given[0];
}

int main(int argc, char **argv)
{
	char line[16];

	if (argc > 3)
		work(atoi(argv[2]), atoi(argv[3]));
	puts("ready");
	fflush(stdout);
	if (!fgets(line, sizeof(line), stdin))
		return 1;
	if (!strcmp(argv[1], "program"))
		start(argv[0]);
	for (;;) {
		if (!take_input) {
			decode();
		} else if (write(ask, "x", 1) != 1 || read(take_input, line, 1) != 1) {
			return 1;
		}
		cudaDeviceSynchronize();
	}
}
