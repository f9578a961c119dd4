// SPDX-License-Identifier: Apache-2.0
/* `loads N FILE...` loads each library on an input line, and calls it N times on the next. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

static void wait_line(const char *say)
{
	puts(say);
	fflush(stdout);
	while (getchar() > '\n')
		;
}

int main(int argc, char **argv)
{
	int n = atoi(argv[1]);

	wait_line("ready");
	for (int i = 2; i < argc; i++) {
		void *h = dlopen(argv[i], RTLD_NOW | RTLD_LOCAL);
		int (*sync)(void *) = h ? (int (*)(void *))dlsym(h, "cudaStreamSynchronize") : NULL;

		if (!sync) {
			fprintf(stderr, "%s\n", dlerror());
			return 1;
		}
		wait_line("loaded");
		for (int k = 0; k < n; k++)
			sync(0);
	}
	wait_line("done");
	return 0;
}
