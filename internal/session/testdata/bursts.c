// SPDX-License-Identifier: Apache-2.0
/* `bursts LIBRARY` makes the number of launches on each input line, and reports it. */
#include <dlfcn.h>
#include <stdio.h>

int main(int argc, char **argv)
{
	void *h = dlopen(argv[1], RTLD_NOW);
	int (*launch)(void *) = h ? (int (*)(void *))dlsym(h, "cudaLaunchKernel") : NULL;
	int n;

	if (!launch) {
		fprintf(stderr, "%s\n", dlerror());
		return 1;
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	puts("ready");
	while (scanf("%d", &n) == 1) {
		for (int i = 0; i < n; i++)
			launch(argv);
		puts("done");
	}
	return 0;
}
