// SPDX-License-Identifier: Apache-2.0
/* Polls until it gets the answers in its arguments, after an input line. */
#include <stdio.h>
#include <stdlib.h>

int cudaEventQuery(long answer);

int main(int argc, char **argv)
{
	char line[16];

	puts("ready");
	fflush(stdout);
	if (!fgets(line, sizeof(line), stdin))
		return 1;
	for (int i = 1; i < argc; i++)
		cudaEventQuery(atol(argv[i]));
	return 0;
}
