/* SPDX-License-Identifier: Apache-2.0 */
/* The part of the CUDA driver's interface that the simulated runtime uses. Structures are
 * laid out as in CUDA 12's cuda.h; handles are untyped pointers. */
#ifndef SIM_DRIVER_H
#define SIM_DRIVER_H

#include "base.h"

typedef int CUresult;
typedef u64 devptr;
typedef void (*host_fn)(void *data);

/* Error codes that the simulation returns. cudaError_t has the same numbers. */
enum {
	OK = 0,
	ERR_INVALID_VALUE = 1,
	ERR_OUT_OF_MEMORY = 2,
	ERR_NOT_INITIALIZED = 3,
	ERR_INVALID_CONFIGURATION = 9,
	ERR_NO_DRIVER = 35,
	ERR_INVALID_DEVICE_FUNCTION = 98,
	ERR_NO_DEVICE = 100,
	ERR_INVALID_DEVICE = 101,
	ERR_INVALID_IMAGE = 200,
	ERR_INVALID_CONTEXT = 201,
	ERR_UNSUPPORTED_LIMIT = 215,
	ERR_INVALID_PTX = 218,
	ERR_FILE_NOT_FOUND = 301,
	ERR_OPERATING_SYSTEM = 304,
	ERR_INVALID_HANDLE = 400,
	ERR_NOT_FOUND = 500,
	ERR_NOT_READY = 600,
	ERR_CONTEXT_DESTROYED = 709,
	ERR_ALREADY_REGISTERED = 712,
	ERR_NOT_REGISTERED = 713,
	ERR_NOT_SUPPORTED = 801,
	ERR_CAPTURE_UNSUPPORTED = 900,
	ERR_CAPTURE_INVALIDATED = 901,
	ERR_CAPTURE_UNMATCHED = 903,
	ERR_ILLEGAL_STATE = 401,
	ERR_EXEC_UPDATE = 910,
};

#define STREAM_LEGACY ((void *)1)
#define STREAM_PER_THREAD ((void *)2)
#define STREAM_NON_BLOCKING 1u

#define SCHED_SPIN 1u
#define SCHED_YIELD 2u
#define SCHED_BLOCK 4u
#define SCHED_MASK 7u

#define EVENT_BLOCKING_SYNC 1u
#define EVENT_NO_TIMING 2u

struct launch_config {
	u32 grid[3], block[3], shared;
	u32 pad;
	void *stream, *attrs;
	u32 n_attrs;
};

struct location { /* CUmemLocation: type 1 device, 2 host, 3 a NUMA node, 4 the current one */
	int type, id;
};

static inline int location_device(struct location l)
{
	return l.type == 1 ? l.id : l.type >= 2 && l.type <= 4 ? -1 : -2;
}

struct copy2d { /* CUDA_MEMCPY2D */
	u64 src_x, src_y;
	u32 src_type, pad0;
	const void *src_host;
	devptr src_device;
	void *src_array;
	u64 src_pitch, dst_x, dst_y;
	u32 dst_type, pad1;
	void *dst_host;
	devptr dst_device;
	void *dst_array;
	u64 dst_pitch, width, height;
};

_Static_assert(offsetof(struct copy2d, width) == 112, "CUDA_MEMCPY2D has WidthInBytes at 112");
_Static_assert(offsetof(struct launch_config, stream) == 32, "CUlaunchConfig has hStream at 32");

struct desc3d { /* CUDA_ARRAY3D_DESCRIPTOR */
	size_t w, h, depth;
	u32 format, channels, flags, pad;
};

/* CUDA_MEMCPY3D, and CUDA_MEMCPY3D_PEER with its contexts in the reserved fields. */
struct end3d {
	size_t x, y, z, lod;
	u32 type, pad;
	void *host;
	devptr device;
	void *array, *reserved;
	size_t pitch, height;
};

struct copy3d {
	struct end3d src, dst;
	size_t w, h, depth;
};

_Static_assert(offsetof(struct copy3d, w) == 176, "CUDA_MEMCPY3D has WidthInBytes at 176");

/* Contents of an IPC handle. Processes share no GPU, so opened memory consists of addresses
 * only, and uses none of the device's. */
struct ipc_handle {
	u64 magic, addr, size;
	int pid;
	u8 rest[36];
};

_Static_assert(sizeof(struct ipc_handle) == 64, "CUipcMemHandle has 64 bytes");

#define LIBRARY_OPTIONS                                                                            \
	void *jit, void **jit_values, u32 n_jit, void *options, void **values, u32 n_options

/* Result of simMemory, for one family or for all device memory. */
struct sim_memory {
	u64 live_bytes, live, peak_bytes, allocs, frees;
};

/* name, parameters: cuGetProcAddress resolves each once for either default stream. */
#define DRIVER_CALLS(X)                                                                            \
	X(cuInit, (u32 flags))                                                                     \
	X(cuDriverGetVersion, (int *v))                                                            \
	X(cuDeviceGetCount, (int *n))                                                              \
	X(cuDeviceGetAttribute, (int *v, int attr, int dev))                                       \
	X(cuDeviceGetName, (char *name, int len, int dev))                                         \
	X(cuDeviceGetUuid, (u8 * uuid, int dev))                                                   \
	X(cuDeviceTotalMem, (size_t * n, int dev))                                                 \
	X(cuDeviceGetPCIBusId, (char *text, int len, int dev))                                     \
	X(cuDeviceGetByPCIBusId, (int *dev, const char *text))                                     \
	X(cuDeviceCanAccessPeer, (int *can, int dev, int peer))                                    \
	X(cuDevicePrimaryCtxRetain, (void **ctx, int dev))                                         \
	X(cuDevicePrimaryCtxSetFlags, (int dev, u32 flags))                                        \
	X(cuDevicePrimaryCtxGetState, (int dev, u32 *flags, int *active))                          \
	X(cuDevicePrimaryCtxReset, (int dev))                                                      \
	X(cuDeviceGetDefaultMemPool, (void **pool, int dev))                                       \
	X(cuCtxSetCurrent, (void *ctx))                                                            \
	X(cuCtxEnablePeerAccess, (void *peer, u32 flags))                                          \
	X(cuCtxDisablePeerAccess, (void *peer))                                                    \
	X(cuCtxGetStreamPriorityRange, (int *least, int *greatest))                                \
	X(cuCtxGetLimit, (size_t * value, u32 limit))                                              \
	X(cuCtxSetLimit, (u32 limit, size_t value))                                                \
	X(cuCtxGetCacheConfig, (u32 * config))                                                     \
	X(cuCtxSetCacheConfig, (u32 config))                                                       \
	X(cuProfilerStart, (void))                                                                 \
	X(cuProfilerStop, (void))                                                                  \
	X(cuFuncSetCacheConfig, (void *f, u32 config))                                             \
	X(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags,                                    \
	  (int *n, void *f, int threads, size_t shared, u32 flags))                                \
	X(cuMemHostGetFlags, (u32 * flags, void *p))                                               \
	X(cuStreamGetPriority, (void *s, int *priority))                                           \
	X(cuGraphDebugDotPrint, (void *g, const char *path, u32 flags))                            \
	X(cuCtxSynchronize, (void))                                                                \
	X(cuGetErrorName, (int e, const char **s))                                                 \
	X(cuGetErrorString, (int e, const char **s))                                               \
	X(cuLibraryLoadData, (void **lib, const void *image, LIBRARY_OPTIONS))                     \
	X(cuLibraryLoadFromFile, (void **lib, const char *file, LIBRARY_OPTIONS))                  \
	X(cuLibraryUnload, (void *lib))                                                            \
	X(cuLibraryGetKernel, (void **k, void *lib, const char *name))                             \
	X(cuLibraryGetGlobal, (devptr * p, size_t * n, void *lib, const char *name))               \
	X(cuKernelGetFunction, (void **f, void *k))                                                \
	X(cuKernelGetName, (const char **name, void *k))                                           \
	X(cuFuncGetName, (const char **name, void *f))                                             \
	X(cuFuncGetAttribute, (int *v, int attr, void *f))                                         \
	X(cuFuncSetAttribute, (void *f, int attr, int v))                                          \
	X(cuLaunchKernel, (void *f, u32 gx, u32 gy, u32 gz, u32 bx, u32 by, u32 bz, u32 shared,    \
			   void *s, void **params, void **extra))                                  \
	X(cuLaunchKernelEx, (const struct launch_config *c, void *f, void **params, void **extra)) \
	X(cuLaunchCooperativeKernel, (void *f, u32 gx, u32 gy, u32 gz, u32 bx, u32 by, u32 bz,     \
				      u32 shared, void *s, void **params))                         \
	X(cuLaunchHostFunc, (void *s, host_fn fn, void *data))                                     \
	X(cuMemGetInfo, (size_t * free, size_t * total))                                           \
	X(cuMemAlloc, (devptr * p, size_t n))                                                      \
	X(cuMemAllocAsync, (devptr * p, size_t n, void *s))                                        \
	X(cuMemAllocFromPoolAsync, (devptr * p, size_t n, void *pool, void *s))                    \
	X(cuMemAllocManaged, (devptr * p, size_t n, u32 flags))                                    \
	X(cuMemAllocPitch, (devptr * p, size_t * pitch, size_t w, size_t h, u32 elem))             \
	X(cuMemAllocHost, (void **p, size_t n))                                                    \
	X(cuMemHostAlloc, (void **p, size_t n, u32 flags))                                         \
	X(cuMemFree, (devptr p))                                                                   \
	X(cuMemFreeAsync, (devptr p, void *s))                                                     \
	X(cuMemFreeHost, (void *p))                                                                \
	X(cuMemHostRegister, (void *p, size_t n, u32 flags))                                       \
	X(cuMemHostUnregister, (void *p))                                                          \
	X(cuMemHostGetDevicePointer, (devptr * d, void *p, u32 flags))                             \
	X(cuMemPrefetchAsync, (devptr p, size_t n, int dev, void *s))                              \
	X(cuMemPrefetchAsync_v2, (devptr p, size_t n, struct location to, u32 flags, void *s))     \
	X(cuMemAdvise, (devptr p, size_t n, int advice, int dev))                                  \
	X(cuMemAdvise_v2, (devptr p, size_t n, int advice, struct location to))                    \
	X(cuDeviceGetMemPool, (void **pool, int dev))                                              \
	X(cuDeviceSetMemPool, (int dev, void *pool))                                               \
	X(cuMemPoolCreate, (void **pool, const void *props))                                       \
	X(cuMemPoolDestroy, (void *pool))                                                          \
	X(cuMemPoolTrimTo, (void *pool, size_t keep))                                              \
	X(cuMemPoolGetAttribute, (void *pool, int attr, void *value))                              \
	X(cuMemPoolSetAttribute, (void *pool, int attr, void *value))                              \
	X(cuMemPoolGetAccess, (u32 * flags, void *pool, const struct location *at))                \
	X(cuMemPoolSetAccess, (void *pool, const void *map, size_t n))                             \
	X(cuIpcGetMemHandle, (struct ipc_handle * h, devptr p))                                    \
	X(cuIpcOpenMemHandle, (devptr * p, struct ipc_handle h, u32 flags))                        \
	X(cuIpcCloseMemHandle, (devptr p))                                                         \
	X(cuArray3DCreate, (void **a, const struct desc3d *d))                                     \
	X(cuArray3DGetDescriptor, (struct desc3d * d, void *a))                                    \
	X(cuArrayDestroy, (void *a))                                                               \
	X(cuPointerGetAttribute, (void *data, int attr, devptr p))                                 \
	X(cuMemcpy, (devptr dst, devptr src, size_t n))                                            \
	X(cuMemcpyAsync, (devptr dst, devptr src, size_t n, void *s))                              \
	X(cuMemcpyHtoD, (devptr dst, const void *src, size_t n))                                   \
	X(cuMemcpyHtoDAsync, (devptr dst, const void *src, size_t n, void *s))                     \
	X(cuMemcpyDtoH, (void *dst, devptr src, size_t n))                                         \
	X(cuMemcpyDtoHAsync, (void *dst, devptr src, size_t n, void *s))                           \
	X(cuMemcpyDtoD, (devptr dst, devptr src, size_t n))                                        \
	X(cuMemcpyDtoDAsync, (devptr dst, devptr src, size_t n, void *s))                          \
	X(cuMemcpy2DUnaligned, (const struct copy2d *c))                                           \
	X(cuMemcpy2DAsync, (const struct copy2d *c, void *s))                                      \
	X(cuMemcpy3D, (const struct copy3d *c))                                                    \
	X(cuMemcpy3DAsync, (const struct copy3d *c, void *s))                                      \
	X(cuMemcpy3DPeer, (const struct copy3d *c))                                                \
	X(cuMemcpy3DPeerAsync, (const struct copy3d *c, void *s))                                  \
	X(cuMemcpyPeer, (devptr dst, void *dctx, devptr src, void *sctx, size_t n))                \
	X(cuMemcpyPeerAsync, (devptr dst, void *dctx, devptr src, void *sctx, size_t n, void *s))  \
	X(cuMemsetD8, (devptr p, u8 v, size_t n))                                                  \
	X(cuMemsetD8Async, (devptr p, u8 v, size_t n, void *s))                                    \
	X(cuMemsetD2D8, (devptr p, size_t pitch, u8 v, size_t w, size_t h))                        \
	X(cuMemsetD2D8Async, (devptr p, size_t pitch, u8 v, size_t w, size_t h, void *s))          \
	X(cuStreamCreate, (void **s, u32 flags))                                                   \
	X(cuStreamCreateWithPriority, (void **s, u32 flags, int prio))                             \
	X(cuStreamDestroy, (void *s))                                                              \
	X(cuStreamSynchronize, (void *s))                                                          \
	X(cuStreamQuery, (void *s))                                                                \
	X(cuStreamWaitEvent, (void *s, void *ev, u32 flags))                                       \
	X(cuStreamGetFlags, (void *s, u32 *flags))                                                 \
	X(cuStreamAddCallback, (void *s, void *cb, void *data, u32 flags))                         \
	X(cuStreamBeginCapture, (void *s, int mode))                                               \
	X(cuStreamEndCapture, (void *s, void **graph))                                             \
	X(cuStreamIsCapturing, (void *s, int *status))                                             \
	X(cuThreadExchangeStreamCaptureMode, (int *mode))                                          \
	X(cuEventCreate, (void **ev, u32 flags))                                                   \
	X(cuEventRecord, (void *ev, void *s))                                                      \
	X(cuEventQuery, (void *ev))                                                                \
	X(cuEventSynchronize, (void *ev))                                                          \
	X(cuEventDestroy, (void *ev))                                                              \
	X(cuEventElapsedTime, (float *ms, void *from, void *to))                                   \
	X(cuGraphCreate, (void **g, u32 flags))                                                    \
	X(cuGraphDestroy, (void *g))                                                               \
	X(cuGraphAddKernelNode,                                                                    \
	  (void **node, void *g, const void *deps, size_t n, const void *params))                  \
	X(cuStreamBeginCaptureToGraph,                                                             \
	  (void *s, void *g, const void *deps, const void *edges, size_t n, int mode))             \
	X(cuStreamGetCaptureInfo_v3, (void *s, int *status, u64 *id, void **g, const void **deps,  \
				      const void **edges, size_t *n))                              \
	X(cuGraphClone, (void **g, void *from))                                                    \
	X(cuGraphAddMemcpyNode,                                                                    \
	  (void **node, void *g, const void *deps, size_t n, const struct copy3d *c, void *ctx))   \
	X(cuGraphAddMemsetNode,                                                                    \
	  (void **node, void *g, const void *deps, size_t n, const void *p, void *ctx))            \
	X(cuGraphAddHostNode, (void **node, void *g, const void *deps, size_t n, const void *p))   \
	X(cuGraphAddChildGraphNode, (void **node, void *g, const void *deps, size_t n, void *c))   \
	X(cuGraphKernelNodeSetParams, (void *node, const void *p))                                 \
	X(cuGraphExecKernelNodeSetParams, (void *exec, void *node, const void *p))                 \
	X(cuEventRecordWithFlags, (void *ev, void *s, u32 flags))                                  \
	X(cuGraphAddEmptyNode, (void **node, void *g, const void *deps, size_t n))                 \
	X(cuGraphGetNodes, (void *g, void **nodes, size_t *n))                                     \
	X(cuGraphInstantiateWithFlags, (void **exec, void *g, unsigned long long flags))           \
	X(cuGraphInstantiateWithParams, (void **exec, void *g, void *params))                      \
	X(cuGraphUpload, (void *exec, void *s))                                                    \
	X(cuGraphLaunch, (void *exec, void *s))                                                    \
	X(cuGraphExecUpdate_v2, (void *exec, void *g, void *info))                                 \
	X(cuGraphExecDestroy, (void *exec))                                                        \
	X(simKernelTime, (u64 ns))                                                                 \
	X(simMemory, (int dev, int family, struct sim_memory *out))                                \
	X(simSetCallHook, (call_hook fn))

#endif
