// SPDX-License-Identifier: Apache-2.0
/*
 * `mix LIBRARY` launches, copies and synchronizes at full speed from a line "go" to a line "stop"
 * of its input, repeatedly, and prints the number of rounds.
 */
#include <dlfcn.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int asked(void)
{
	struct pollfd p = { .fd = 0, .events = POLLIN };

	return poll(&p, 1, 0) > 0;
}

int main(int argc, char **argv)
{
	static const char *const names[] = { "cudaLaunchKernel", "cudaMemcpyAsync",
					     "cudaStreamSynchronize" };
	void *h = dlopen(argv[1], RTLD_NOW);
	int (*call[3])(void *) = { 0 };
	unsigned long rounds = 0;
	char line[64];

	for (int i = 0; h && i < 3; i++)
		call[i] = (int (*)(void *))dlsym(h, names[i]);
	if (!h || !call[0] || !call[1] || !call[2]) {
		fprintf(stderr, "%s\n", dlerror());
		return 1;
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	setvbuf(stdin, NULL, _IONBF, 0);
	puts("ready");
	while (fgets(line, sizeof(line), stdin)) {
		if (strncmp(line, "go", 2))
			continue;
		puts("going");
		for (;;) {
			for (int i = 0; i < 1000; i++, rounds++)
				for (int j = 0; j < 3; j++)
					call[j](argv);
			if (asked())
				break;
		}
		printf("rounds %lu\n", rounds);
	}
	return 0;
}
