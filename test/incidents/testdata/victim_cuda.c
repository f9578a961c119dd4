// SPDX-License-Identifier: Apache-2.0
/*
 * The victim's operations on the GPU.
 *
 * launch N US [CPU]  launches N kernels of US us, each followed by CPU us of CPU work
 * sync, devsync      waits for the stream, or for the device
 * copy N             copies N bytes from pinned memory to the device, asynchronously
 * back N             copies N bytes from the device to pinned memory, and waits
 * pageable N         copies N bytes from pageable memory
 * malloc N           allocates N bytes and frees them
 * driverlock         from now on each driver call takes a lock
 * slowcall US        from now on each driver call of this thread uses US of CPU time
 */
#include "victim.h"
#include <pthread.h>

struct dim3 {
	unsigned x, y, z;
};

enum { H2D = 1, D2H = 2 };

int cudaLaunchKernel(const void *f, struct dim3 g, struct dim3 b, void **a, size_t s, void *st);
int cudaStreamCreate(void **stream);
int cudaStreamSynchronize(void *stream);
int cudaDeviceSynchronize(void);
int cudaMalloc(void **p, size_t n);
int cudaMallocHost(void **p, size_t n);
int cudaFree(void *p);
int cudaMemcpy(void *dst, const void *src, size_t n, int kind);
int cudaMemcpyAsync(void *dst, const void *src, size_t n, int kind, void *s);
int simSetCallHook(void (*fn)(const char *op));
void **__cudaRegisterFatBinary(void *image);
void __cudaRegisterFunction(void **h, const char *host_fn, char *dev_fn, const char *name,
			    int limit, void *tid, void *bid, void *bdim, void *gdim, int *warp);

#define MAX_KERNELS 64
static char kernels[MAX_KERNELS];
static long kernel_us[MAX_KERNELS];
static int n_kernels;
static void **image;
static pthread_mutex_t registering = PTHREAD_MUTEX_INITIALIZER;

void cuda_begin(void)
{
	image = __cudaRegisterFatBinary("simulated");
}

/* The kernel's name tells the simulated GPU how long it takes. */
static const void *kernel(long us)
{
	char name[40];
	int i;

	pthread_mutex_lock(&registering);
	if (!image) /* once per process: workers are forked earlier */
		cuda_begin();
	for (i = 0; i < n_kernels && kernel_us[i] != us; i++)
		;
	if (i == n_kernels) {
		need(n_kernels < MAX_KERNELS, "too many kernels");
		snprintf(name, sizeof(name), "step_kernel_%ldus", us);
		__cudaRegisterFunction(image, &kernels[i], NULL, strdup(name), -1, NULL, NULL, NULL,
				       NULL, NULL);
		kernel_us[n_kernels++] = us;
	}
	pthread_mutex_unlock(&registering);
	return &kernels[i];
}

static void *stream(struct actor *a)
{
	if (!a->stream)
		need(!cudaStreamCreate(&a->stream), "cudaStreamCreate");
	return a->stream;
}

static void *device(struct actor *a, size_t n)
{
	if (a->device_size < n) {
		need(!cudaMalloc(&a->device, n), "cudaMalloc");
		a->device_size = n;
	}
	return a->device;
}

static void *pinned(struct actor *a, size_t n)
{
	if (a->host_size < n) {
		need(!cudaMallocHost(&a->host, n), "cudaMallocHost");
		a->host_size = n;
	}
	return a->host;
}

static void launch(struct actor *a, const long *arg)
{
	struct dim3 grid = { 64, 1, 1 }, block = { 256, 1, 1 };
	const void *f = kernel(arg[1]);

	for (long i = 0; i < arg[0]; i++) {
		need(!cudaLaunchKernel(f, grid, block, NULL, 0, stream(a)), "cudaLaunchKernel");
		if (arg[2])
			burn(arg[2]);
	}
}

static void sync_stream(struct actor *a, const long *arg)
{
	(void)arg;
	need(!cudaStreamSynchronize(stream(a)), "cudaStreamSynchronize");
}

static void sync_device(struct actor *a, const long *arg)
{
	(void)a, (void)arg;
	need(!cudaDeviceSynchronize(), "cudaDeviceSynchronize");
}

static void copy(struct actor *a, const long *arg)
{
	need(!cudaMemcpyAsync(device(a, arg[0]), pinned(a, arg[0]), arg[0], H2D, stream(a)),
	     "cudaMemcpyAsync");
}

static void back(struct actor *a, const long *arg)
{
	need(!cudaMemcpyAsync(pinned(a, arg[0]), device(a, arg[0]), arg[0], D2H, stream(a)),
	     "cudaMemcpyAsync");
	sync_stream(a, arg);
}

static void pageable(struct actor *a, const long *arg)
{
	if (!a->pageable) {
		a->pageable = malloc(arg[0]);
		memset(a->pageable, 1, arg[0]);
	}
	need(!cudaMemcpyAsync(device(a, arg[0]), a->pageable, arg[0], H2D, stream(a)),
	     "cudaMemcpyAsync");
}

static void allocate(struct actor *a, const long *arg)
{
	void *p;

	(void)a;
	need(!cudaMalloc(&p, arg[0]), "cudaMalloc");
	need(!cudaFree(p), "cudaFree");
}

static pthread_mutex_t driver_lock = PTHREAD_MUTEX_INITIALIZER;
static __thread long slow_us;

/* Runs inside each driver call. */
static void in_driver(const char *op)
{
	(void)op;
	pthread_mutex_lock(&driver_lock);
	if (slow_us)
		burn(slow_us);
	pthread_mutex_unlock(&driver_lock);
}

static void lock_driver(struct actor *a, const long *arg)
{
	(void)a, (void)arg;
	simSetCallHook(in_driver);
}

static void slow_call(struct actor *a, const long *arg)
{
	(void)a;
	slow_us = arg[0];
}

void *stream_of(struct actor *a)
{
	return stream(a);
}

void *device_memory(struct actor *a, size_t n)
{
	return device(a, n);
}

const struct op cuda_ops[] = {
	{ "launch", launch },       { "sync", sync_stream },
	{ "devsync", sync_device }, { "copy", copy },
	{ "back", back },           { "pageable", pageable },
	{ "malloc", allocate },     { "driverlock", lock_driver },
	{ "slowcall", slow_call },  { NULL, NULL },
};
