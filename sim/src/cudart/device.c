/* SPDX-License-Identifier: Apache-2.0 */
/* Device queries and settings. */
#include "rt.h"

/* cudaDeviceProp of CUDA 12. CUDA 11's ends at the comment below; CUDA 13 has another. */
struct properties {
	char name[256];
	u8 uuid[16];
	char luid[8];
	u32 luid_mask;
	size_t memory, shared_of_block;
	int registers_of_block, warp;
	size_t pitch;
	int block, block_size[3], grid[3], clock;
	size_t constant;
	int major, minor;
	size_t texture_alignment, texture_pitch;
	int overlap, multiprocessors, timeout, integrated, map_host, compute_mode;
	int textures[40]; /* and surfaces */
	size_t surface_alignment;
	int concurrent_kernels, ecc, pci_bus, pci_device, pci_domain, tcc, copy_engines;
	int unified_addressing, memory_clock, memory_bus, l2, l2_persisting;
	int threads_of_multiprocessor, priorities, l1_global, l1_local;
	size_t shared_of_multiprocessor;
	int registers_of_multiprocessor, managed, multi_gpu_board, multi_gpu_group;
	int native_atomics, single_to_double, pageable, concurrent_managed, preemption;
	int registered_as_host, cooperative, cooperative_multi;
	size_t shared_optin;
	int host_page_tables, direct_managed, blocks_of_multiprocessor, access_window;
	size_t reserved_shared;
	/* since 12 */
	int host_register, sparse_arrays, read_only_register, timelines, pools;
	int rdma, rdma_flush, rdma_order, pool_handles, deferred_arrays, ipc_events;
	int clusters, unified_functions, reserved[63];
};

_Static_assert(offsetof(struct properties, multiprocessors) == 388, "of cudaDeviceProp");
_Static_assert(offsetof(struct properties, surface_alignment) == 568, "of cudaDeviceProp");
_Static_assert(offsetof(struct properties, shared_optin) == 696, "of cudaDeviceProp");
_Static_assert(sizeof(struct properties) == 1032, "of cudaDeviceProp");

#define NUMBER(field, attribute)                                                                   \
	{                                                                                          \
		offsetof(struct properties, field), attribute                                      \
	}

/* The driver attribute of each field. */
static const struct {
	u32 offset;
	int attribute;
} numbers[] = {
	NUMBER(registers_of_block, 12),
	NUMBER(warp, 10),
	NUMBER(block, 1),
	NUMBER(block_size[0], 2),
	NUMBER(block_size[1], 3),
	NUMBER(block_size[2], 4),
	NUMBER(grid[0], 5),
	NUMBER(grid[1], 6),
	NUMBER(grid[2], 7),
	NUMBER(clock, 13),
	NUMBER(major, 75),
	NUMBER(minor, 76),
	NUMBER(overlap, 15),
	NUMBER(multiprocessors, 16),
	NUMBER(map_host, 19),
	NUMBER(concurrent_kernels, 31),
	NUMBER(pci_bus, 33),
	NUMBER(copy_engines, 40),
	NUMBER(unified_addressing, 41),
	NUMBER(memory_clock, 36),
	NUMBER(memory_bus, 37),
	NUMBER(l2, 38),
	NUMBER(threads_of_multiprocessor, 39),
	NUMBER(priorities, 78),
	NUMBER(l1_global, 79),
	NUMBER(l1_local, 80),
	NUMBER(registers_of_multiprocessor, 82),
	NUMBER(managed, 83),
	NUMBER(single_to_double, 87),
	NUMBER(concurrent_managed, 89),
	NUMBER(preemption, 90),
	NUMBER(registered_as_host, 91),
	NUMBER(cooperative, 95),
	NUMBER(cooperative_multi, 96),
	NUMBER(blocks_of_multiprocessor, 106),
};

static size_t size_of(int attribute, int dev)
{
	int v = 0;

	DRV(cuDeviceGetAttribute)(&v, attribute, dev);
	return (size_t)v;
}

static int fill(struct properties *p, size_t n, int dev)
{
	int err = rt_driver();
	size_t memory;

	if (!err && !p)
		err = ERR_INVALID_VALUE;
	if (!err)
		err = DRV(cuDeviceTotalMem)(&memory, dev);
	if (err)
		return err;
	memset(p, 0, n);
	p->memory = memory;
	DRV(cuDeviceGetName)(p->name, sizeof(p->name), dev);
	DRV(cuDeviceGetUuid)(p->uuid, dev);
	for (u32 i = 0; i < ARRAY_SIZE(numbers); i++)
		DRV(cuDeviceGetAttribute)
	((int *)((char *)p + numbers[i].offset), numbers[i].attribute, dev);
	p->shared_of_block = size_of(8, dev);
	p->pitch = size_of(11, dev);
	p->constant = size_of(9, dev);
	p->texture_alignment = size_of(14, dev);
	p->texture_pitch = size_of(51, dev);
	p->surface_alignment = size_of(14, dev);
	p->shared_of_multiprocessor = size_of(81, dev);
	p->shared_optin = size_of(97, dev);
	p->reserved_shared = size_of(111, dev);
	return OK;
}

EXPORT int cudaGetDeviceProperties_v2(struct properties *p, int dev)
{
	int err = fill(p, sizeof(*p), dev);

	if (err)
		return rt_fail(err);
	p->host_register = (int)size_of(99, dev);
	p->pools = (int)size_of(115, dev);
	return OK;
}

#if CUDART < 13
EXPORT int cudaGetDeviceProperties(struct properties *p, int dev)
{
	return done(fill(p, offsetof(struct properties, host_register), dev));
}
#endif

EXPORT int cudaDeviceGetPCIBusId(char *text, int len, int dev)
{
	int err = rt_driver();

	return done(err ? err : DRV(cuDeviceGetPCIBusId)(text, len, dev));
}

EXPORT int cudaDeviceGetByPCIBusId(int *dev, const char *text)
{
	int err = rt_driver();

	return done(err ? err : DRV(cuDeviceGetByPCIBusId)(dev, text));
}

EXPORT int cudaDeviceCanAccessPeer(int *can, int dev, int peer)
{
	int err = rt_driver();

	return done(err ? err : DRV(cuDeviceCanAccessPeer)(can, dev, peer));
}

EXPORT int cudaDeviceGetStreamPriorityRange(int *least, int *greatest)
{
	BEGIN;
	return done(DRV(cuCtxGetStreamPriorityRange)(least, greatest));
}

EXPORT int cudaDeviceGetLimit(size_t *value, u32 limit)
{
	BEGIN;
	return done(DRV(cuCtxGetLimit)(value, limit));
}

EXPORT int cudaDeviceSetLimit(u32 limit, size_t value)
{
	BEGIN;
	return done(DRV(cuCtxSetLimit)(limit, value));
}

EXPORT int cudaDeviceGetCacheConfig(u32 *config)
{
	BEGIN;
	return done(DRV(cuCtxGetCacheConfig)(config));
}

EXPORT int cudaDeviceSetCacheConfig(u32 config)
{
	BEGIN;
	return done(DRV(cuCtxSetCacheConfig)(config));
}

EXPORT int cudaHostGetFlags(u32 *flags, void *p)
{
	BEGIN;
	return done(DRV(cuMemHostGetFlags)(flags, p));
}

EXPORT int cudaFuncSetCacheConfig(const void *func, u32 config)
{
	void *k;

	BEGIN;
	k = rt_kernel(func);
	return done(k ? DRV(cuFuncSetCacheConfig)(k, config) : rt_no_kernel());
}

static int occupancy(int *n, const void *func, int threads, size_t shared, u32 flags)
{
	void *k = rt_kernel(func);

	return k ? DRV(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags)(n, k, threads, shared,
									     flags)
		 : rt_no_kernel();
}

EXPORT int cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *n, const void *func,
								  int threads, size_t shared,
								  u32 flags)
{
	BEGIN;
	return done(occupancy(n, func, threads, shared, flags));
}

EXPORT int cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *n, const void *func, int threads,
							 size_t shared)
{
	BEGIN;
	return done(occupancy(n, func, threads, shared, 0));
}

EXPORT int cudaProfilerStart(void)
{
	BEGIN;
	return done(DRV(cuProfilerStart)());
}

EXPORT int cudaProfilerStop(void)
{
	BEGIN;
	return done(DRV(cuProfilerStop)());
}
