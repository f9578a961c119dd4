// SPDX-License-Identifier: Apache-2.0
/* Calls functions of the least telling classes: one that the loader binds, one whose name it
 * contains, and one that a library calls which it loads later. For each input line it makes a
 * hundred calls of the function that the line names. */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

extern int cudaStreamQuery(void *stream);

int main(int argc, char **argv)
{
	int (*lookedup)(void *) = (int (*)(void *))dlsym(RTLD_DEFAULT, "cudaEventQuery");
	int (*later)(void) = NULL;
	char line[80];
	void *h;

	if (!lookedup)
		return 1;
	puts("ready");
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin)) {
		if (!strcmp(line, "load\n")) {
			h = dlopen(argv[1], RTLD_NOW);
			later = h ? (int (*)(void))dlsym(h, "later") : NULL;
			if (!later)
				return 2;
		}
		for (int i = 0; i < 100 && strcmp(line, "load\n"); i++) {
			if (!strcmp(line, "imported\n"))
				cudaStreamQuery(NULL);
			else if (!strcmp(line, "named\n"))
				lookedup(NULL);
			else
				later();
		}
		puts("called");
		fflush(stdout);
	}
	return 0;
}
