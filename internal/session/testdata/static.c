// SPDX-License-Identifier: Apache-2.0
/*
 * A program with a linked-in runtime, as nvcc builds it: `static DRIVER N` loads the driver on an
 * input line, then makes N calls.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

int cudaStreamSynchronize(void *stream);

/* nvcc's section for a program's GPU code. */
__attribute__((section(".nvFatBinSegment"), used)) static const char fat[8] = "gpu";

static void wait_line(const char *say)
{
	puts(say);
	fflush(stdout);
	while (getchar() > '\n')
		;
}

int main(int argc, char **argv)
{
	int n = atoi(argv[2]);

	wait_line("ready");
	if (!dlopen(argv[1], RTLD_NOW)) {
		fprintf(stderr, "%s\n", dlerror());
		return 1;
	}
	wait_line("loaded");
	for (int i = 0; i < n; i++)
		cudaStreamSynchronize(0);
	wait_line("done");
	return 0;
}
