// SPDX-License-Identifier: Apache-2.0
/* A runtime library whose one function runs the program's code, and is traced by its name. */
#include "truth.h"

void (*in_runtime)(void);

int cudaStreamSynchronize(void *stream)
{
	in_runtime();
	__asm__ volatile("" ::: "memory");
	return 0;
}
