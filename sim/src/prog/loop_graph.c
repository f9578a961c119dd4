/* SPDX-License-Identifier: Apache-2.0 */
/* Faults of graphs. */
#include "loop.h"

#define SIZES 8

static void *exec[SIZES]; /* by batch size */
static u64 size, launched;

/* Captures the step's kernels; returns NULL if that fails. */
static void *capture(u64 n, size_t allocate)
{
	void *graph = NULL, *out = NULL;

	if (counted(cudaStreamBeginCapture(stream, 0)))
		return NULL;
	launch_all(n);
	if (allocate && !device_alloc(allocate))
		cudaGetLastError();
	if (counted(cudaStreamEndCapture(stream, &graph)) || !graph)
		return NULL;
	counted(cudaGraphInstantiate(&out, graph, 0));
	counted(cudaGraphDestroy(graph));
	return out;
}

static void warm_up(void)
{
	for (u64 i = 0; i < 3; i++) {
		launch_all(launches);
		sync_stream(0);
	}
}

static void launch_graph(void *x)
{
	if (x)
		counted(cudaGraphLaunch(x, stream));
	else
		launch_all(launches);
	launched++;
}

static void graph_begin(void)
{
	warm_up();
	exec[0] = capture(launches, 0);
}

static void graph_work(u64 step)
{
	(void)step;
	launch_graph(exec[0]);
}

/* --- graph-recapture: batch sizes not seen before --- */

static void recapture_plan(void)
{
	slow("cuGraphInstantiateWithFlags", 1, 1, delay_us, 200);
}

static void recapture_begin(void)
{
	warm_up();
	for (u64 i = 0; i < SIZES; i++)
		exec[i] = capture(launches + i % 2, 0);
}

static void recapture_work(u64 step)
{
	if (step % every == every - 1)
		size = random_next(&seed) % SIZES;
	if (hit(step)) {
		u64 t = begin_loss();

		counted(cudaGraphExecDestroy(exec[size]));
		exec[size] = capture(launches + size % 2, 0);
		end_loss(t);
	}
	launch_graph(exec[size]);
}

/* --- graph-warmup: captured before anything has run --- */

static void warmup_begin(void)
{
	if (!ever()) {
		graph_begin();
		return;
	}
	exec[0] = capture(0, 0); /* libraries still initialize, and launch nothing */
	if (exec[0])
		cudaGraphExecDestroy(exec[0]);
	exec[0] = NULL;
}

/* --- graph-unused: captured, but the kernels are launched one by one --- */

static void unused_work(u64 step)
{
	launch_graph(hit(step) ? NULL : exec[0]);
}

/* --- graph-pool: launches take longer once the graphs' pool is full --- */

static void pool_plan(void)
{
	slow("cuGraphLaunch", every, 1, delay_us, 0);
}

static void pool_work(u64 step)
{
	u64 t = begin_loss();

	launch_graph(exec[0]);
	if (faulty() && step + 1 >= every)
		end_loss(t);
}

/* --- graph-oom: an allocation fails during the capture --- */

static void *filled;

static void graph_oom_plan(void)
{
	setting("INGERO_SIM_MEM", "1G");
	slow("cuGraphInstantiateWithFlags", 1, 1, 500, 500);
}

static void graph_oom_begin(void)
{
	warm_up();
	exec[0] = capture(launches, 0);
}

static void graph_oom_work(u64 step)
{
	u64 t = begin_loss();

	if (faulty() && !filled)
		filled = device_alloc(900 * MB);
	if (hit(step)) {
		void *x = capture(launches, 256 * MB);

		if (x)
			counted(cudaGraphExecDestroy(x));
		burn_cpu(delay_us * 1000);
		end_loss(t);
	}
	launch_graph(exec[0]);
}

const struct fault graph_faults[] = {
	{ .name = "graph",
	  .help = "no fault: a graph that is captured after a warm-up, and launched",
	  .every = 1,
	  .begin = graph_begin,
	  .work = graph_work },
	{ .name = "graph-recapture",
	  .help = "captured anew for batches of another size",
	  .every = 20,
	  .us = 30000,
	  .plan = recapture_plan,
	  .begin = recapture_begin,
	  .work = recapture_work },
	{ .name = "graph-warmup",
	  .help = "captured before anything has run, without launches",
	  .every = 1,
	  .begin = warmup_begin,
	  .work = graph_work },
	{ .name = "graph-unused",
	  .help = "captured, and then launched kernel by kernel",
	  .every = 1,
	  .begin = graph_begin,
	  .work = unused_work },
	{ .name = "graph-pool",
	  .help = "launches of the graph are slow from the --every-th on",
	  .every = 800,
	  .us = 3000,
	  .plan = pool_plan,
	  .begin = graph_begin,
	  .work = pool_work },
	{ .name = "graph-oom",
	  .help = "an allocation fails while a graph is captured",
	  .every = 40,
	  .us = 20000,
	  .plan = graph_oom_plan,
	  .begin = graph_oom_begin,
	  .work = graph_oom_work },
	{ 0 },
};
