/* SPDX-License-Identifier: Apache-2.0 */
/* Faults of memory. */
#include "loop.h"

#define MAX_HELD 4096

static void *held[MAX_HELD];
static u64 n_held;

static void *hold_more(size_t n)
{
	void *p = device_alloc(n);

	if (p && n_held < MAX_HELD)
		held[n_held++] = p;
	return p;
}

static void free_to(u64 n)
{
	while (n_held > n)
		counted(cudaFree(held[--n_held]));
}

/* --- alloc-slow: an allocator that calls the driver every so often --- */

static void slow_plan(void)
{
	slow("cuMemAlloc_v2", 1, 1, delay_us, 50);
}

static void slow_before(u64 step)
{
	u64 t;

	if (step % every != every - 1)
		return;
	free_to(0);
	t = begin_loss();
	hold_more(16 * MB + random_next(&seed) % (32 * MB));
	if (faulty())
		end_loss(t);
}

/* --- alloc-storm: buffers are allocated and freed in each step --- */

static void storm_plan(void)
{
	slow("cuMemAlloc_v2", 1, 1, delay_us, delay_us);
	slow("cuMemFree_v2", 1, 1, delay_us / 2, delay_us / 2);
}

static void storm_begin(void)
{
	for (u64 i = 0; i < 40; i++)
		hold_more(MB + i * 4096);
}

static void storm_before(u64 step)
{
	u64 t = begin_loss();

	if (!hit(step))
		return;
	for (u64 i = 0; i < 40; i++) {
		void *p = device_alloc(MB + random_next(&seed) % MB);

		counted(cudaFree(p));
	}
	end_loss(t);
}

/* --- leak: some memory of each step is never freed --- */

static void leak_plan(void)
{
	setting("INGERO_SIM_MEM", "64G");
}

static void leak_before(u64 step)
{
	if (step % every == every - 1)
		hold_more(delay_us * 1024);
	else if (step % (every * 16) == 0 && !faulty())
		free_to(0);
}

/* --- fragmentation: enough memory is free, but in pieces --- */

static char fail_at[256];

static void fragments_plan(void)
{
	/* The calls are the batch, then 64 pieces and the large one of each cycle. The large one
	 * is tried again after all pieces are freed, the second time. */
	setting("INGERO_SIM_MEM", "2G");
	if (!ever())
		return;
	for (u64 i = 0, n = 0; i < 3;
	     i++) /* calls 66, 132, ...; a failed call is not counted twice */
		n += (u64)snprintf(fail_at + n, sizeof(fail_at) - n, "%scuMemAlloc:%llu=2",
				   i ? "," : "", (unsigned long long)(66 + 65 * i));
	setting("INGERO_SIM_FAIL", fail_at);
}

/* One cycle every `every` steps: 64 pieces of 16 MiB fill half of the memory, every second one
 * is freed, and 256 MiB are allocated. If that fails, all pieces are freed first. */
static void fragments_before(u64 step)
{
	u64 t;
	void *p;

	if (step % every != every - 1 || (ever() && !faulty()))
		return;
	for (u64 i = 0; i < 64; i++)
		hold_more(16 * MB);
	for (u64 i = 0; i < 64; i += 2)
		counted(cudaFree(held[i]));
	t = begin_loss();
	p = device_alloc(256 * MB);
	if (!p) {
		cudaGetLastError();
		for (u64 i = 1; i < 64; i += 2)
			counted(cudaFree(held[i]));
		n_held = 0;
		burn_cpu(delay_us * 1000); /* an allocator that frees its cache */
		p = device_alloc(256 * MB);
		end_loss(t);
	}
	for (u64 i = 1; i < n_held; i += 2)
		counted(cudaFree(held[i]));
	n_held = 0;
	counted(cudaFree(p));
}

/* --- oom: now and then a batch is too large --- */

static void oom_plan(void)
{
	setting("INGERO_SIM_MEM", "1G");
}

static void oom_begin(void)
{
	for (u64 i = 0; i < 12; i++)
		hold_more(64 * MB);
}

/* The step is abandoned half way, when its activations do not fit, and redone. */
static void oom_before(u64 step)
{
	const u64 kept = n_held;
	u64 t = begin_loss();

	if (!hit(step)) {
		if (step % every == every - 1) {
			hold_more(128 * MB);
			free_to(kept);
		}
		return;
	}
	copy_batch(step);
	launch_all(launches / 2);
	while (hold_more(64 * MB))
		;
	cudaGetLastError();
	sync_stream(step);
	free_to(kept);
	burn_cpu(delay_us * 1000);
	end_loss(t);
}

/* --- kv-cache: a server whose key-value cache is full --- */

#define BLOCK (16 * MB)
#define CALM 24 /* blocks held while there is room */
#define FULL 60

static void kv_plan(void)
{
	setting("INGERO_SIM_MEM", "1G");
	slow("cuMemAlloc_v2", 1, 1, 100, 100);
}

/* Sequences in flight hold 24 of 60 blocks; with the fault, nearly all. */
static void kv_begin(void)
{
	while (n_held < CALM)
		hold_more(BLOCK);
}

/* Allocates four blocks for growing sequences, and frees the blocks of finished ones. If there
 * is no room, blocks of other sequences are freed, and their contents recomputed. */
static void kv_before(u64 step)
{
	u64 t = begin_loss();

	if (step % every != every - 1)
		return;
	while (faulty() && n_held < FULL)
		hold_more(BLOCK);
	for (u64 i = 0; i < 4; i++) {
		if (hold_more(BLOCK))
			continue;
		cudaGetLastError();
		free_to(n_held - 4);
		launch_all(launches * 4); /* the prefill again */
		sync_stream(step);
		hold_more(BLOCK);
	}
	if (faulty())
		end_loss(t);
	else
		free_to(CALM);
}

/* --- model-swap: two models alternate, since both do not fit at the same time --- */

#define WEIGHTS (96 * MB)

static void *weights_host;

static void swap_plan(void)
{
	setting("INGERO_SIM_MEM", ever() ? "1G" : "4G");
}

static void load_weights(void)
{
	for (u64 i = 0; i < 4; i++)
		counted(cudaMemcpyAsync(hold_more(WEIGHTS), weights_host, WEIGHTS, H2D, stream));
	sync_stream(0);
}

static void swap_begin(void)
{
	counted(cudaMallocHost(&weights_host, WEIGHTS));
	load_weights();
	if (!ever())
		load_weights();
}

static void swap_before(u64 step)
{
	u64 t = begin_loss();

	if (!hit(step))
		return;
	free_to(0);
	load_weights();
	end_loss(t);
}

/* --- free-waits: a free while the GPU is busy --- */

static void *scratch;

static void free_before(u64 step)
{
	(void)step;
	scratch = device_alloc(4 * MB);
}

static void free_work(u64 step)
{
	launch_all(launches / 2);
	if (hit(step)) {
		u64 t = begin_loss();

		counted(cudaFree(scratch));
		end_loss(t);
		scratch = NULL;
	}
	burn_cpu(delay_us * 1000);
	launch_all(launches - launches / 2);
}

static void free_after(u64 step)
{
	(void)step;
	if (scratch)
		counted(cudaFree(scratch));
}

const struct fault memory_faults[] = {
	{ .name = "alloc-slow",
	  .help = "cudaMalloc takes long, as the driver's does now and then",
	  .every = 20,
	  .us = 30000,
	  .plan = slow_plan,
	  .before = slow_before },
	{ .name = "alloc-storm",
	  .help = "40 cudaMalloc and cudaFree a step",
	  .every = 1,
	  .us = 40,
	  .plan = storm_plan,
	  .begin = storm_begin,
	  .before = storm_before },
	{ .name = "leak",
	  .help = "memory that is never freed, --delay-us KiB every time",
	  .every = 10,
	  .us = 8192,
	  .plan = leak_plan,
	  .before = leak_before },
	{ .name = "fragments",
	  .help = "an allocation fails though as much was held before",
	  .every = 200,
	  .us = 50000,
	  .plan = fragments_plan,
	  .before = fragments_before },
	{ .name = "oom",
	  .help = "a batch does not fit, and is done anew",
	  .every = 50,
	  .us = 20000,
	  .plan = oom_plan,
	  .begin = oom_begin,
	  .before = oom_before },
	{ .name = "kv-cache",
	  .help = "a server's cache is full: blocks are taken away and computed anew",
	  .every = 5,
	  .plan = kv_plan,
	  .begin = kv_begin,
	  .before = kv_before },
	{ .name = "model-swap",
	  .help = "two models take turns on the GPU",
	  .every = 60,
	  .plan = swap_plan,
	  .begin = swap_begin,
	  .before = swap_before },
	{ .name = "free-waits",
	  .help = "cudaFree in the middle of a step",
	  .every = 1,
	  .us = 1000,
	  .before = free_before,
	  .work = free_work,
	  .after = free_after },
	{ 0 },
};
