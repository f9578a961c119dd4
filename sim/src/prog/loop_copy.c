/* SPDX-License-Identifier: Apache-2.0 */
/* Faults of copies, of waiting, and of the first steps. */
#include "loop.h"

static void pageable_copy(u64 step)
{
	counted(cudaMemcpyAsync(device, hit(step) ? host : pinned, batch, H2D, stream));
}

/* --- small-copies: the batch is copied in pieces --- */

#define PIECES 256

static void small_copy(u64 step)
{
	const size_t n = batch / PIECES;

	if (!hit(step)) {
		copy_batch(step);
		return;
	}
	for (size_t i = 0; i < PIECES; i++)
		counted(cudaMemcpyAsync((char *)device + i * n, (char *)pinned + i * n, n, H2D,
					stream));
}

/* --- copy-heavy: all copies to the GPU and back run one after the other --- */

static void heavy_copy(u64 step)
{
	u64 t;

	if (!hit(step)) {
		copy_batch(step);
		return;
	}
	t = begin_loss();
	counted(cudaMemcpy(device, pinned, batch, H2D));
	end_loss(t);
}

static void heavy_after(u64 step)
{
	u64 t = begin_loss();

	if (hit(step)) {
		counted(cudaMemcpy(pinned, device, batch, D2H));
		end_loss(t);
	} else if (step % 200 == 199) { /* a checkpoint is no fault */
		counted(cudaMemcpy(pinned, device, batch, D2H));
	}
}

/* --- sync-heavy: the host waits after each kernel --- */

static void sync_work(u64 step)
{
	for (u64 i = 0; i < launches; i++) {
		launch_all(1);
		if (hit(step))
			sync_stream(step);
	}
}

/* --- cold-start: everything is loaded on first use --- */

static void cold_plan(void)
{
	slow("cuLibraryLoadData", 1, 0, delay_us, 100);
	for (u64 i = 0; i < 3; i++)
		slow("cuLaunchKernel", 1 + i * launches, 0, delay_us / 4, 0);
}

static void cold_work(u64 step)
{
	u64 t = begin_loss();

	launch_all(launches);
	if (faulty() && step < 3)
		end_loss(t);
}

const struct fault copy_faults[] = {
	{ .name = "pageable",
	  .help = "batches are copied from pageable memory",
	  .every = 1,
	  .copy = pageable_copy },
	{ .name = "small-copies",
	  .help = "a batch is copied in 256 pieces",
	  .every = 1,
	  .copy = small_copy },
	{ .name = "copy-heavy",
	  .help = "synchronous copies to the GPU and back",
	  .every = 1,
	  .copy = heavy_copy,
	  .after = heavy_after },
	{ .name = "sync-heavy",
	  .help = "cudaStreamSynchronize after each launch",
	  .every = 1,
	  .work = sync_work },
	{ .name = "cold-start",
	  .help = "the first steps load code",
	  .every = 1,
	  .us = 400000,
	  .plan = cold_plan,
	  .work = cold_work },
	{ 0 },
};
