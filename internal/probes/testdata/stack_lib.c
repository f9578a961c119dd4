/* A runtime on a driver, in one: each records its return address. */
#include <stddef.h>
void *called_from[2];
int fail_next;

int cuMemAlloc_v2(void **p, size_t n)
{
	called_from[1] = __builtin_return_address(0);
	*p = (void *)n;
	return fail_next;
}

int cudaMalloc(void **p, size_t n)
{
	int err;

	called_from[0] = __builtin_return_address(0);
	err = cuMemAlloc_v2(p, n);
	asm volatile("" ::: "memory"); /* no tail call */
	return err;
}
