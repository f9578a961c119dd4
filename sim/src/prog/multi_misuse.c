/* SPDX-License-Identifier: Apache-2.0 */
/* Mistakes of a program, and the error of each. */
#include "multi.h"

static char unknown_kernel, known_kernel;

static int double_free(void)
{
	void *p = NULL;

	check("cudaMalloc", cudaMalloc(&p, 4096));
	check("cudaFree", cudaFree(p));
	return cudaFree(p);
}

static int out_of_memory(void)
{
	void *p = NULL;

	return cudaMalloc(&p, 1ull << 50);
}

static int bad_stream(void)
{
	return cudaStreamSynchronize(&tally);
}

static int unregistered(void)
{
	struct dim3 one = { 1, 1, 1 };

	return cudaLaunchKernel(&unknown_kernel, one, one, NULL, 0, NULL);
}

static int bad_shape(void)
{
	struct dim3 one = { 1, 1, 1 }, none = { 0, 1, 1 };

	__cudaRegisterFunction(__cudaRegisterFatBinary("simulated"), &known_kernel, NULL, "known",
			       -1, NULL, NULL, NULL, NULL, NULL);
	return cudaLaunchKernel(&known_kernel, none, one, NULL, 0, NULL);
}

static int too_long(void)
{
	char host[64] = { 0 };
	void *p = NULL;
	int err;

	check("cudaMalloc", cudaMalloc(&p, 32));
	err = cudaMemcpy(p, host, sizeof(host), H2D);
	check("cudaFree", cudaFree(p));
	return err;
}

static int bad_device(void)
{
	return cudaSetDevice(99);
}

static int free_null(void)
{
	return cudaFree(NULL);
}

static const struct {
	const char *name;
	int (*make)(void);
} mistakes[] = {
	{ "double_free", double_free }, { "out_of_memory", out_of_memory },
	{ "bad_stream", bad_stream },   { "unregistered_kernel", unregistered },
	{ "bad_shape", bad_shape },     { "copy_too_long", too_long },
	{ "bad_device", bad_device },   { "free_null", free_null },
};

/* Prints every mistake's error, and two later results of cudaGetLastError. */
int misuse(void)
{
	for (u32 i = 0; i < ARRAY_SIZE(mistakes); i++) {
		int err = mistakes[i].make();
		int last = cudaGetLastError();

		printf("{\"mistake\":\"%s\",\"error\":%d,\"name\":\"%s\",\"last\":%d,\"then\":%d}"
		       "\n",
		       mistakes[i].name, err, cudaGetErrorName(err), last, cudaGetLastError());
	}
	return 0;
}
