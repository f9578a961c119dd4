/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks per multiprocessor, by threads, registers and shared memory, as NVIDIA's
 * programming guide says for compute capability 8.0. */
#include "gpu.h"

#define WARP 32
#define REGISTERS 32 /* per thread, for every kernel; see attribute() in function.c */

static u32 least(u32 a, u32 b)
{
	return a < b ? a : b;
}

u32 blocks_of(u32 threads, u64 shared)
{
	u32 warps = (threads + WARP - 1) / WARP, n;
	u64 bytes = (shared + RESERVED_SHARED + 127) & ~127ull;

	if (threads > MAX_BLOCK || shared > SHARED_OPTIN)
		return 0;
	n = least(MAX_BLOCKS, MAX_THREADS / WARP / warps);
	n = least(n, SM_REGISTERS / (REGISTERS * WARP) / warps);
	return least(n, (u32)(SM_SHARED / bytes));
}

static int check(const void *f, int threads, const void *out)
{
	if (!function_get(f))
		return ERR_INVALID_HANDLE;
	return threads > 0 && out ? OK : ERR_INVALID_VALUE;
}

CU(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags)
(int *n, void *f, int threads, size_t shared, u32 flags)
{
	ENTER;
	err = check(f, threads, n);
	if (!err && flags > 1)
		err = ERR_INVALID_VALUE;
	if (!err)
		*n = (int)blocks_of((u32)threads, shared);
	return err;
}

CU(cuOccupancyMaxActiveBlocksPerMultiprocessor)(int *n, void *f, int threads, size_t shared)
{
	return impl_cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(n, f, threads, shared, 0);
}

CU(cuOccupancyAvailableDynamicSMemPerBlock)(size_t *n, void *f, int blocks, int threads)
{
	ENTER;
	err = check(f, threads, n);
	if (err || blocks <= 0)
		return err ? err : ERR_INVALID_VALUE;
	*n = (SM_SHARED / (u32)blocks & ~127u) - RESERVED_SHARED;
	if (*n > 49152)
		*n = 49152;
	return OK;
}

/* The block size with the most active threads; of equal ones, the largest. */
CU(cuOccupancyMaxPotentialBlockSizeWithFlags)
(int *grid, int *block, void *f, size_t (*shared_of)(int), size_t shared, int limit, u32 flags)
{
	u32 best = 0, most = limit > 0 && limit < MAX_BLOCK ? (u32)limit : MAX_BLOCK;

	ENTER;
	err = check(f, 1, block);
	if (err || !grid || flags > 1)
		return err ? err : ERR_INVALID_VALUE;
	*grid = *block = 0;
	for (u32 size = most; size; size = size % WARP ? size - size % WARP : size - WARP) {
		u32 n = blocks_of(size, shared_of ? shared_of((int)size) : shared);

		if (n * size > best) {
			best = n * size;
			*block = (int)size;
			*grid = (int)(n * MULTIPROCESSORS);
		}
	}
	return OK;
}

CU(cuOccupancyMaxPotentialBlockSize)
(int *grid, int *block, void *f, size_t (*shared_of)(int), size_t shared, int limit)
{
	return impl_cuOccupancyMaxPotentialBlockSizeWithFlags(grid, block, f, shared_of, shared,
							      limit, 0);
}
