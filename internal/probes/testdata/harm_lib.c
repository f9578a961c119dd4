// SPDX-License-Identifier: Apache-2.0
/* Two traced functions that call back, so that a test can leave them in every way. */
int stub_result;

int cudaStreamSynchronize(void (*leave)(void))
{
	if (leave)
		leave();
	__asm__ volatile("" ::: "memory");
	return stub_result;
}

int cudaLaunchHostFunc(void *stream, void (*fn)(void *), void *data)
{
	fn(data);
	__asm__ volatile("" ::: "memory");
	return 0;
}

/* Same stack pointer, no call instruction: a tail call from one traced function to another. */
__attribute__((noinline)) int cudaEventSynchronize(void *event)
{
	__asm__ volatile("" ::: "memory");
	return 0;
}

int cudaDeviceSynchronize(void)
{
	return cudaEventSynchronize((void *)1);
}
