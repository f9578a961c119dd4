/* SPDX-License-Identifier: Apache-2.0 */
/* CUDA graphs, used well and badly: captured once and launched many times; recaptured each
 * step; updated each step; captured before anything has run. */
#include "api.h"

static u64 steps = 20, nodes = 10, recapture, update, params, cold, hold, clone,
	   kernel_us = NO_VALUE;

static const struct option opts[] = {
	{ "steps", 'n', &steps, "graph launches (20)" },
	{ "nodes", 'n', &nodes, "kernels of the graph (10)" },
	{ "recapture", 'f', &recapture, "capture and instantiate anew each step" },
	{ "update", 'f', &update, "capture each step, and update the executable graph" },
	{ "params", 'f', &params,
	  "build the graph node by node, and set a node's kernel each step" },
	{ "clone", 'f', &clone, "instantiate a copy of the graph" },
	{ "cold", 'f', &cold, "capture first of all, without a warm-up" },
	{ "kernel-us", 'n', &kernel_us, "GPU time of a kernel in us (INGERO_SIM_KERNEL_NS)" },
	{ "hold", 'f', &hold,
	  "print \"ready PID\" and wait for a line before the first CUDA call" },
};

struct node_params { /* cudaKernelNodeParams */
	void *func;
	struct dim3 grid, block;
	u32 shared;
	void **args, **extra;
};

int cudaGraphClone(void **out, void *graph);
int cudaGraphCreate(void **graph, u32 flags);

static char kernel_a, kernel_b;
static void *stream;
static const struct dim3 one = { 1, 1, 1 };

static void work(void)
{
	for (u64 i = 0; i < nodes; i++) {
		CHECKED(cudaLaunchKernel, i % 2 ? &kernel_b : &kernel_a, one, one, NULL, 0, stream);
		tally(&launches, i % 2 ? "_Z6part_bPf" : "_Z6part_aPf", 0);
	}
}

static void *capture(void)
{
	void *graph;

	CHECKED(cudaStreamBeginCapture, stream, 0);
	work();
	CHECKED(cudaStreamEndCapture, stream, &graph);
	return graph;
}

static struct node_params node_of(u64 i)
{
	struct node_params p = { .func = i % 2 ? &kernel_b : &kernel_a, .grid = one, .block = one };

	return p;
}

static void *build(void **first)
{
	void *graph, *node;

	CHECKED(cudaGraphCreate, &graph, 0);
	for (u64 i = 0; i < nodes; i++) {
		struct node_params p = node_of(i);

		CHECKED(cudaGraphAddKernelNode, &node, graph, NULL, 0, &p);
		if (!i)
			*first = node;
	}
	return graph;
}

static void *instantiate(void *graph)
{
	void *exec, *copy = graph;

	if (clone)
		CHECKED(cudaGraphClone, &copy, graph);
	CHECKED(cudaGraphInstantiate, &exec, copy, 0);
	if (clone)
		CHECKED(cudaGraphDestroy, copy);
	return exec;
}

/* Renews the executable graph between two launches. */
static void *renew(void *exec, void *first, u64 i)
{
	struct node_params p = node_of(i);
	void *graph = NULL;
	char info[64];

	if (params)
		CHECKED(cudaGraphExecKernelNodeSetParams, exec, first, &p);
	if (recapture || update)
		graph = capture();
	if (recapture) {
		CHECKED(cudaGraphExecDestroy, exec);
		exec = instantiate(graph);
	} else if (update) {
		CHECKED(cudaGraphExecUpdate, exec, graph, info);
	}
	if (graph)
		CHECKED(cudaGraphDestroy, graph);
	return exec;
}

int main(int argc, char **argv)
{
	void *graph, *exec, *first = NULL, **fat;

	options(argc, argv, opts, ARRAY_SIZE(opts),
		"usage: graph [options]\nCaptures, updates and launches graphs; prints what it "
		"called.",
		NULL, 0);
	if (clone && params)
		die("graph: --params sets nodes of the graph itself, not of a copy", 2);
	if (kernel_us != NO_VALUE)
		set_env_number("INGERO_SIM_KERNEL_NS", kernel_us * 1000);
	if (hold)
		hold_for_line();
	fat = __cudaRegisterFatBinary("simulated");
	__cudaRegisterFunction(fat, &kernel_a, NULL, "_Z6part_aPf", -1, NULL, NULL, NULL, NULL,
			       NULL);
	__cudaRegisterFunction(fat, &kernel_b, NULL, "_Z6part_bPf", -1, NULL, NULL, NULL, NULL,
			       NULL);
	__cudaRegisterFatBinaryEnd(fat);
	CHECKED(cudaStreamCreateWithFlags, &stream, 1);
	if (!cold) {
		work();
		CHECKED(cudaStreamSynchronize, stream);
	}
	graph = params ? build(&first) : capture();
	exec = instantiate(graph);
	for (u64 i = 0; i < steps; i++) {
		if (i)
			exec = renew(exec, first, i);
		CHECKED(cudaGraphLaunch, exec, stream);
		CHECKED(cudaStreamSynchronize, stream);
	}
	CHECKED(cudaGraphExecDestroy, exec);
	CHECKED(cudaGraphDestroy, graph);
	CHECKED(cudaStreamDestroy, stream);
	tally_report("graph");
	return 0;
}
