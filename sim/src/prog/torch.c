/* SPDX-License-Identifier: Apache-2.0 */
/* A small model of PyTorch's use of CUDA: kernels with long C++ names launched by <<<>>>, a
 * caching allocator that keeps its segments, copies from pinned memory on a separate stream,
 * and a graph that is captured once and then replayed.
 *
 * One source makes four programs: torch, linked to the runtime of CUDA 12; cuda13, linked to
 * that of 13, whose launches take a kernel's handle; static and static-stripped, with the
 * runtime linked in. */
#include "api.h"

#ifndef PROGRAM
#define PROGRAM "torch"
#endif
#define SEGMENT (20ull << 20)

static u64 steps = 20, layers = 6, warmup = 3, use_graph, expandable, hold, batch = 1 << 20,
	   kernel_us = NO_VALUE, keep;

static const struct option opts[] = {
	{ "steps", 'n', &steps, "training steps (20)" },
	{ "layers", 'n', &layers, "layers: two kernels of a step each (6)" },
	{ "graph", 'f', &use_graph,
	  "capture the step's kernels after the warm-up, then replay them" },
	{ "warmup", 'n', &warmup, "steps before the capture (3)" },
	{ "expandable", 'f', &expandable, "segments of mapped memory, not of cudaMalloc" },
	{ "batch", 'n', &batch, "bytes of a batch (1048576)" },
	{ "kernel-us", 'n', &kernel_us, "GPU time of a kernel in us (INGERO_SIM_KERNEL_NS)" },
	{ "keep", 'f', &keep, "end without giving the allocator's segments back" },
	{ "hold", 'f', &hold,
	  "print \"ready PID\" and wait for a line before the first CUDA call" },
};

/* A kernel: the address of its host stub, and the name that nvcc registers for it. */
struct kernel {
	char stub;
	void *handle; /* CUDA 13 */
	const char *name;
};

static struct kernel gemm = { .name = "ampere_sgemm_128x64_nn" },
		     add = { .name = "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_"
				     "15CUDAFunctor_addIfEESt5arrayIPcLm3EEEEviT0_T1_" },
		     mean = { .name = "_ZN2at6native13reduce_kernelILi512ELi1ENS0_8ReduceOpIfNS0_"
				      "10MeanOpsIffffEEjfLi4EEEEEvT1_" };

static void **fat;

static void register_kernels(void)
{
	struct kernel *const all[] = { &gemm, &add, &mean };

	fat = __cudaRegisterFatBinary("simulated");
	for (u32 i = 0; i < ARRAY_SIZE(all); i++)
		__cudaRegisterFunction(fat, &all[i]->stub, &all[i]->stub, all[i]->name, -1, NULL,
				       NULL, NULL, NULL, NULL);
	__cudaRegisterFatBinaryEnd(fat);
}

/* The code that nvcc generates for kernel<<<grid, block, 0, stream>>>(). */
static void launch(struct kernel *k, u32 blocks, void *stream)
{
	struct dim3 grid = { blocks, 1, 1 }, block = { 256, 1, 1 };
	size_t shared;
	void *s;

	__cudaPushCallConfiguration(grid, block, 0, stream);
	__cudaPopCallConfiguration(&grid, &block, &shared, &s);
#ifdef CUDA13
	if (!k->handle)
		CHECKED(__cudaGetKernel, &k->handle, &k->stub);
	CHECKED(__cudaLaunchKernel, k->handle, grid, block, NULL, shared, s);
#else
	CHECKED(cudaLaunchKernel, &k->stub, grid, block, NULL, shared, s);
#endif
	tally(&launches, k->name, 0);
}

/* A segment of the caching allocator: kept until the end. */
struct segment {
	void *p, *handle;
} segments[64];

static u32 n_segments;

static void new_segment(void)
{
	struct prop prop = { .type = 1, .location = 1 };
	struct access access = { 1, 0, 3 };
	struct segment *g = &segments[n_segments];
	devptr p;

	if (n_segments++ == ARRAY_SIZE(segments))
		die("torch: too many segments", 1);
	if (!expandable) {
		CHECKED(cudaMalloc, &g->p, SEGMENT);
		return;
	}
	CHECKED(cuMemAddressReserve, &p, 8 * SEGMENT, 0, 0, 0);
	CHECKED(cuMemCreate, &g->handle, SEGMENT, &prop, 0);
	CHECKED(cuMemMap, p, SEGMENT, 0, g->handle, 0);
	CHECKED(cuMemSetAccess, p, SEGMENT, &access, 1);
	g->p = (void *)p;
}

/* Does what torch.cuda.empty_cache() does. */
static void empty_cache(void)
{
	for (u32 i = 0; i < n_segments; i++) {
		devptr p = (devptr)segments[i].p;

		if (!expandable) {
			CHECKED(cudaFree, segments[i].p);
			continue;
		}
		CHECKED(cuMemUnmap, p, SEGMENT);
		CHECKED(cuMemRelease, segments[i].handle);
		CHECKED(cuMemAddressFree, p, 8 * SEGMENT);
	}
}

static void *pinned, *compute, *copies, *copied;

static void model(void)
{
	for (u64 i = 0; i < layers; i++) {
		launch(&gemm, 128, compute);
		launch(&add, 64, compute);
	}
	launch(&mean, 1, compute);
}

static void *capture(void)
{
	void *graph, *exec;

	CHECKED(cudaStreamBeginCapture, compute, 1);
	model();
	CHECKED(cudaStreamEndCapture, compute, &graph);
	CHECKED(cudaGraphInstantiateWithFlags, &exec, graph, 0);
	CHECKED(cudaGraphDestroy, graph);
	return exec;
}

static void train(void)
{
	void *exec = NULL;

	for (u64 i = 0; i < steps; i++) {
		if (i % 8 == 0)
			new_segment();
		CHECKED(cudaMemcpyAsync, segments[0].p, pinned, batch, H2D, copies);
		CHECKED(cudaEventRecord, copied, copies);
		CHECKED(cudaStreamWaitEvent, compute, copied, 0);
		if (use_graph && i == warmup)
			exec = capture();
		if (exec)
			CHECKED(cudaGraphLaunch, exec, compute);
		else
			model();
		CHECKED(cudaMemcpyAsync, pinned, segments[0].p, 4, D2H, compute);
		CHECKED(cudaStreamSynchronize, compute); /* loss.item() */
	}
	if (exec)
		CHECKED(cudaGraphExecDestroy, exec);
}

int main(int argc, char **argv)
{
	options(argc, argv, opts, ARRAY_SIZE(opts),
		"usage: " PROGRAM
		" [options]\nTraining as PyTorch does it; prints what it called, and "
		"the launches by kernel.",
		NULL, 0);
	if (batch > SEGMENT || steps > 8 * ARRAY_SIZE(segments))
		die("torch: --batch is at most 20 MiB, --steps 512", 2);
	if (kernel_us != NO_VALUE)
		set_env_number("INGERO_SIM_KERNEL_NS", kernel_us * 1000);
	if (hold)
		hold_for_line();
	register_kernels();
	CHECKED(cudaSetDevice, 0);
	CHECKED(cudaStreamCreateWithFlags, &compute, 1);
	CHECKED(cudaStreamCreateWithFlags, &copies, 1);
	CHECKED(cudaEventCreateWithFlags, &copied, 2);
	CHECKED(cudaHostAlloc, &pinned, batch, 0);
	train();
	CHECKED(cudaDeviceSynchronize);
	CHECKED(cudaEventDestroy, copied);
	if (!keep)
		empty_cache();
	CHECKED(cudaFreeHost, pinned);
	__cudaUnregisterFatBinary(fat);
	tally_report(PROGRAM);
	return 0;
}
