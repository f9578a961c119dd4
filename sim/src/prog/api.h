/* SPDX-License-Identifier: Apache-2.0 */
/* CUDA's interface beyond prog.h: the driver's, and what frameworks use. */
#ifndef SIM_API_H
#define SIM_API_H

#include "tally.h"
#include "../driver.h"

int cuInit(u32 flags);
int cuDeviceGet(int *dev, int ordinal);
int cuDevicePrimaryCtxRetain(void **ctx, int dev);
int cuCtxCreate_v2(void **ctx, u32 flags, int dev);
int cuCtxDestroy_v2(void *ctx);
int cuCtxSetCurrent(void *ctx);
int cuCtxSynchronize(void);
int cuModuleLoad(void **mod, const char *file);
int cuModuleLoadData(void **mod, const void *image);
int cuModuleUnload(void *mod);
int cuModuleGetFunction(void **f, void *mod, const char *name);
int cuLaunchKernel(void *f, u32 gx, u32 gy, u32 gz, u32 bx, u32 by, u32 bz, u32 shared, void *s,
		   void **params, void **extra);
int cuLaunchKernelEx(const struct launch_config *c, void *f, void **params, void **extra);
int cuMemAlloc_v2(devptr *p, size_t n);
int cuMemFree_v2(devptr p);
int cuMemAllocAsync(devptr *p, size_t n, void *s);
int cuMemFreeAsync(devptr p, void *s);
int cuMemAllocHost_v2(void **p, size_t n);
int cuMemFreeHost(void *p);
int cuMemcpyHtoD_v2(devptr dst, const void *src, size_t n);
int cuMemcpyDtoH_v2(void *dst, devptr src, size_t n);
int cuMemcpyHtoDAsync_v2(devptr dst, const void *src, size_t n, void *s);
int cuMemcpyDtoHAsync_v2(void *dst, devptr src, size_t n, void *s);
int cuMemcpyDtoDAsync_v2(devptr dst, devptr src, size_t n, void *s);
int cuMemsetD8Async(devptr p, u8 v, size_t n, void *s);
int cuMemGetInfo_v2(size_t *free, size_t *total);
int cuStreamCreate(void **s, u32 flags);
int cuStreamDestroy_v2(void *s);
int cuStreamSynchronize(void *s);
int cuStreamWaitEvent(void *s, void *ev, u32 flags);
int cuStreamBeginCapture_v2(void *s, int mode);
int cuStreamEndCapture(void *s, void **graph);
int cuEventCreate(void **ev, u32 flags);
int cuEventRecord(void *ev, void *s);
int cuEventSynchronize(void *ev);
int cuEventDestroy_v2(void *ev);
int cuGraphInstantiateWithParams(void **exec, void *graph, void *params);
int cuGraphLaunch(void *exec, void *s);
int cuGraphExecDestroy(void *exec);
int cuGraphDestroy(void *graph);

struct prop { /* CUmemAllocationProp */
	int type, handle_types, location, device;
	void *meta;
	u64 flags;
};

struct access { /* CUmemAccessDesc */
	int location, device;
	u32 flags;
};

int cuMemCreate(void **handle, size_t n, const struct prop *prop, u64 flags);
int cuMemRelease(void *handle);
int cuMemAddressReserve(devptr *p, size_t n, size_t align, devptr at, u64 flags);
int cuMemAddressFree(devptr p, size_t n);
int cuMemMap(devptr p, size_t n, size_t offset, void *handle, u64 flags);
int cuMemUnmap(devptr p, size_t n);
int cuMemSetAccess(devptr p, size_t n, const struct access *a, size_t count);

struct pitched { /* cudaPitchedPtr */
	void *ptr;
	size_t pitch, w, h;
};

struct extent {
	size_t w, h, depth;
};

struct channels { /* cudaChannelFormatDesc */
	int x, y, z, w, kind;
};

int cudaMallocPitch(void **p, size_t *pitch, size_t w, size_t h);
int cudaMalloc3D(struct pitched *p, struct extent e);
int cudaMallocArray(void **a, const struct channels *c, size_t w, size_t h, u32 flags);
int cudaFreeArray(void *a);
int cudaMallocFromPoolAsync(void **p, size_t n, void *pool, void *s);
int cudaDeviceGetDefaultMemPool(void **pool, int dev);
int cudaHostRegister(void *p, size_t n, u32 flags);
int cudaHostUnregister(void *p);
int cudaStreamCreateWithFlags(void **s, u32 flags);
int cudaStreamWaitEvent(void *s, void *ev, u32 flags);
int cudaEventCreateWithFlags(void **ev, u32 flags);
int cudaGraphInstantiateWithFlags(void **exec, void *graph, unsigned long long flags);
int cudaGraphExecUpdate(void *exec, void *graph, void *info);
int cudaGraphGetNodes(void *graph, void **nodes, size_t *n);
int cudaGraphAddKernelNode(void **node, void *graph, const void *deps, size_t n, const void *p);
int cudaGraphExecKernelNodeSetParams(void *exec, void *node, const void *p);
void __cudaRegisterFatBinaryEnd(void **h);
void __cudaUnregisterFatBinary(void **h);
int __cudaGetKernel(void **kernel, const void *host_fn);
u32 __cudaPushCallConfiguration(struct dim3 grid, struct dim3 block, size_t shared, void *stream);
int __cudaPopCallConfiguration(struct dim3 *grid, struct dim3 *block, size_t *shared,
			       void **stream);
int simMemory(int dev, int family, struct sim_memory *out);

#endif
