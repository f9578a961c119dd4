// SPDX-License-Identifier: Apache-2.0
/* Asks until it is told what its arguments say, once a line is there to read. */
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
