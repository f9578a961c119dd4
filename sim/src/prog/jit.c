/* SPDX-License-Identifier: Apache-2.0 */
/* Programs that compile their kernels at run time and call only the driver: like JAX, with
 * stream-ordered memory and graphs, or like Triton, with extended launches. */
#include "api.h"

static u64 steps = 20, kernels = 4, use_graph, hold;
static const char *like = "jax";

static const struct option opts[] = {
	{ "like", 's', &like, "jax or triton (jax)" },
	{ "steps", 'n', &steps, "steps (20)" },
	{ "kernels", 'n', &kernels,
	  "kernels, each of a module of its own and launched once a step (4, at most 32)" },
	{ "graph", 'f', &use_graph, "jax: capture the first step, then launch the graph" },
	{ "hold", 'f', &hold,
	  "print \"ready PID\" and wait for a line before the first CUDA call" },
};

static char names[32][96], images[32][128];
static void *modules[32], *functions[32], *stream;
static int triton;

/* Stands for compiling: loads an image with one kernel from memory. */
static void load(u64 i)
{
	if (triton)
		snprintf(names[i], sizeof(names[i]), "triton_poi_fused_add_relu_%llu",
			 (unsigned long long)i);
	else
		snprintf(names[i], sizeof(names[i]),
			 i % 2 ? "input_reduce_fusion_%llu" : "loop_add_fusion_%llu",
			 (unsigned long long)i);
	snprintf(images[i], sizeof(images[i]), "kernels:\n%s\n", names[i]);
	CHECKED(cuModuleLoadData, &modules[i], images[i]);
	CHECKED(cuModuleGetFunction, &functions[i], modules[i], names[i]);
}

static void launch(u64 i)
{
	struct launch_config c = {
		.grid = { 32, 1, 1 }, .block = { 128, 1, 1 }, .shared = 2048, .stream = stream
	};

	if (triton)
		CHECKED(cuLaunchKernelEx, &c, functions[i], NULL, NULL);
	else
		CHECKED(cuLaunchKernel, functions[i], 32, 1, 1, 128, 1, 1, 0, stream, NULL, NULL);
	tally(&launches, names[i], 0);
}

static void *capture(void)
{
	void *graph, *exec;
	u64 params[4] = { 0 }; /* CUDA_GRAPH_INSTANTIATE_PARAMS */

	CHECKED(cuStreamBeginCapture_v2, stream, 1);
	for (u64 k = 0; k < kernels; k++)
		launch(k);
	CHECKED(cuStreamEndCapture, stream, &graph);
	CHECKED(cuGraphInstantiateWithParams, &exec, graph, params);
	CHECKED(cuGraphDestroy, graph);
	return exec;
}

static void step(void *exec, void *host)
{
	devptr in, out;

	CHECKED(cuMemAllocAsync, &in, 1 << 20, stream);
	CHECKED(cuMemAllocAsync, &out, 1 << 16, stream);
	CHECKED(cuMemcpyHtoDAsync_v2, in, host, 1 << 20, stream);
	if (exec)
		CHECKED(cuGraphLaunch, exec, stream);
	for (u64 k = 0; !exec && k < kernels; k++)
		launch(k);
	CHECKED(cuMemcpyDtoHAsync_v2, host, out, 1 << 16, stream);
	CHECKED(cuMemFreeAsync, in, stream);
	CHECKED(cuMemFreeAsync, out, stream);
	CHECKED(cuStreamSynchronize, stream);
}

int main(int argc, char **argv)
{
	void *ctx, *host, *exec;
	int dev;

	options(argc, argv, opts, ARRAY_SIZE(opts),
		"usage: jit [options]\nKernels made at run time, launched by the driver's "
		"interface; "
		"prints what it called.",
		NULL, 0);
	triton = !strcmp(like, "triton");
	if ((!triton && strcmp(like, "jax")) || !kernels || kernels > ARRAY_SIZE(names))
		die("jit: --like is jax or triton, --kernels 1 to 32", 2);
	if (hold)
		hold_for_line();
	CHECKED(cuInit, 0);
	CHECKED(cuDeviceGet, &dev, 0);
	CHECKED(cuDevicePrimaryCtxRetain, &ctx, dev);
	CHECKED(cuCtxSetCurrent, ctx);
	CHECKED(cuStreamCreate, &stream, 1);
	CHECKED(cuMemAllocHost_v2, &host, 1 << 20);
	for (u64 i = 0; i < kernels; i++)
		load(i);
	exec = use_graph && !triton ? capture() : NULL;
	for (u64 i = 0; i < steps; i++)
		step(exec, host);
	if (exec)
		CHECKED(cuGraphExecDestroy, exec);
	for (u64 i = 0; i < kernels; i++)
		CHECKED(cuModuleUnload, modules[i]);
	CHECKED(cuMemFreeHost, host);
	CHECKED(cuStreamDestroy_v2, stream);
	tally_report("jit");
	return 0;
}
