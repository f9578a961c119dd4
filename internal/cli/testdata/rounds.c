/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For each line of input, a number, `rounds` makes that many rounds of CUDA calls. It then prints
 * its total numbers of calls as a line of JSON.
 */
#include <stdio.h>

struct dim3 {
	unsigned x, y, z;
};

int cudaStreamCreate(void **stream);
int cudaStreamSynchronize(void *stream);
int cudaMalloc(void **p, size_t n);
int cudaMallocHost(void **p, size_t n);
int cudaFree(void *p);
int cudaMemcpyAsync(void *dst, const void *src, size_t n, int kind, void *stream);
int cudaMemsetAsync(void *p, int value, size_t n, void *stream);
int cudaEventCreate(void **event);
int cudaEventRecord(void *event, void *stream);
int cudaLaunchKernel(const void *f, struct dim3 g, struct dim3 b, void **a, size_t s, void *stream);
void **__cudaRegisterFatBinary(void *image);
void __cudaRegisterFunction(void **h, const char *host_fn, char *dev_fn, const char *name,
			    int limit, void *tid, void *bid, void *bdim, void *gdim, int *warp);

enum { SIZE = 4096, H2D = 1, LAUNCHES = 40, RECORDS = 10, ALLOC_EVERY = 10 };

static char kernel;
static long launches, copies, sets, records, syncs, allocs, frees, failed;

static void count(long *n, int err)
{
	++*n;
	failed += err != 0;
}

static void make_round(long i, void *stream, void *event, void *device, void *host)
{
	struct dim3 grid = { 1, 1, 1 }, block = { 64, 1, 1 };
	void *p;

	count(&copies, cudaMemcpyAsync(device, host, SIZE, H2D, stream));
	count(&sets, cudaMemsetAsync(device, 0, SIZE, stream));
	for (int k = 0; k < LAUNCHES; k++)
		count(&launches, cudaLaunchKernel(&kernel, grid, block, NULL, 0, stream));
	for (int k = 0; k < RECORDS; k++)
		count(&records, cudaEventRecord(event, stream));
	count(&syncs, cudaStreamSynchronize(stream));
	if (i % ALLOC_EVERY == 0) {
		count(&allocs, cudaMalloc(&p, SIZE));
		count(&frees, cudaFree(p));
	}
}

int main(void)
{
	void *stream, *event, *device, *host, **image = __cudaRegisterFatBinary("simulated");
	long n, made = 0;

	__cudaRegisterFunction(image, &kernel, NULL, "round_kernel", -1, NULL, NULL, NULL, NULL,
			       NULL);
	setvbuf(stdout, NULL, _IOLBF, 0);
	puts("ready");
	if (scanf("%ld", &n) != 1)
		return 1;
	cudaStreamCreate(&stream);
	cudaEventCreate(&event);
	cudaMallocHost(&host, SIZE);
	count(&allocs, cudaMalloc(&device, SIZE));
	do {
		while (n--)
			make_round(made++, stream, event, device, host);
		printf("{\"cudaLaunchKernel\":%ld,\"cudaMemcpyAsync\":%ld,\"cudaMemsetAsync\":%ld,"
		       "\"cudaEventRecord\":%ld,\"cudaStreamSynchronize\":%ld,\"cudaMalloc\":%ld,"
		       "\"cudaFree\":%ld}\n",
		       launches, copies, sets, records, syncs, allocs, frees);
	} while (scanf("%ld", &n) == 1);
	return failed != 0;
}
