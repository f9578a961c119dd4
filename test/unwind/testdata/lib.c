// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* A library without frame pointers that calls back into the program. */
#include <stdlib.h>

/* The probe is at the first byte. gdb stops at the second, where the stack is the same. */
__asm__(".text\n.globl traced\n.type traced, @function\ntraced:\n.cfi_startproc\nnop\n.globl "
	"stopped\nstopped:\nnop\nret\n.cfi_endproc\n.size traced, .-traced\n");

int through_library(int (*f)(int), int depth)
{
	volatile long room[37];
	int r;

	room[3] = depth;
	r = f(depth);
	return r + (int)room[3];
}

static __thread int (*callback)(int);
static __thread int sort_depth;

static int compare(const void *a, const void *b)
{
	int (*f)(int) = callback;

	callback = NULL;
	if (f)
		f(sort_depth);
	return *(const int *)a - *(const int *)b;
}

int through_sort(int (*f)(int), int depth)
{
	int numbers[] = { 3, 1, 2 };

	callback = f;
	sort_depth = depth;
	qsort(numbers, 3, sizeof(numbers[0]), compare);
	return numbers[0];
}
