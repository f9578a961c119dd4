/* SPDX-License-Identifier: Apache-2.0 */
/* Loading the driver; threads, devices and errors. */
#include "rt.h"

#define CUDA_VERSION (CUDART * 1000 + (CUDART == 11 ? 80 : CUDART == 12 ? 40 : 0))

#define NEWEST 13000

struct rt rt = { .generation = 1 };
static _Thread_local struct rt_thread self;
static struct lock init_lock;

struct rt_thread *rt_self(void)
{
	return &self;
}

int rt_fail(int err)
{
	self.last_error = err;
	return err;
}

typedef int (*get_proc)(const char *, void **, int, u64, int *);

static const char *const names[] = {
#define X(name, params) #name,
	DRIVER_CALLS(X)
#undef X
};

/* Fills both tables through cuGetProcAddress, as the real runtime does. Functions newer than
 * the runtime are requested with the newest version, because all simulated runtimes share
 * one source. */
static int resolve(void)
{
	void *lib = dlopen("libcuda.so.1", RTLD_NOW);
	get_proc first = lib ? (get_proc)dlsym(lib, "cuGetProcAddress_v2") : NULL;
	get_proc get;
	int status;

	if (!first || first("cuGetProcAddress", (void **)&get, CUDA_VERSION, 1, &status))
		return ERR_NO_DRIVER;
	for (u32 pt = 0; pt < 2; pt++) {
		void **fn = (void **)&rt.drv[pt];

		for (u32 i = 0; i < ARRAY_SIZE(names); i++)
			if (get(names[i], &fn[i], CUDA_VERSION, 1 + pt, &status) &&
			    get(names[i], &fn[i], NEWEST, 1 + pt, &status))
				return ERR_NO_DRIVER;
	}
	return OK;
}

/* Loads and starts the driver once; later calls return the same result. */
int rt_driver(void)
{
	if (unlikely(rt.no_room))
		return ERR_OUT_OF_MEMORY;
	if (likely(__atomic_load_n(&rt.initialised, __ATOMIC_ACQUIRE)))
		return rt.init_error;
	lock(&init_lock);
	if (!rt.initialised) {
		inject_parse(&rt.inject, "cuda", "-");
		rt.watched |= (rt.inject.n > 0) | (u32)counts_open();
		rt.init_error = resolve();
		if (!rt.init_error)
			rt.init_error = DRV(cuInit)(0);
		__atomic_store_n(&rt.initialised, 1, __ATOMIC_RELEASE);
	}
	unlock(&init_lock);
	return rt.init_error;
}

/* Returns the device's primary context, retained on first use. */
void *rt_context(int dev)
{
	lock(&init_lock);
	if (!rt.ctx[dev])
		DRV(cuDevicePrimaryCtxRetain)(&rt.ctx[dev], dev);
	unlock(&init_lock);
	return rt.ctx[dev];
}

int rt_begin_slow(struct rt_thread *t, const char *op)
{
	int err = rt_driver();

	if (err)
		return err;
	if (t->ready != rt.generation) {
		int n;

		err = DRV(cuDeviceGetCount)(&n); /* fails in a forked child */
		if (err)
			return err;
		err = DRV(cuCtxSetCurrent)(rt_context(t->device));
		if (err)
			return err;
		t->ready = rt.generation;
	}
	if (!rt.watched)
		return OK;
	counts_add(op);
	return inject_hit(&rt.inject, op);
}

EXPORT int cudaGetLastError(void)
{
	int err = self.last_error;

	self.last_error = OK;
	return err;
}

EXPORT int cudaPeekAtLastError(void)
{
	return self.last_error;
}

EXPORT int cudaDriverGetVersion(int *v)
{
	if (!v)
		return rt_fail(ERR_INVALID_VALUE);
	*v = 0;
	return rt_driver() == ERR_NO_DRIVER ? OK : done(DRV(cuDriverGetVersion)(v));
}

EXPORT int cudaRuntimeGetVersion(int *v)
{
	if (!v)
		return rt_fail(ERR_INVALID_VALUE);
	*v = CUDA_VERSION;
	return OK;
}

EXPORT int cudaGetDeviceCount(int *n)
{
	int err = rt_driver();

	if (!n)
		return rt_fail(ERR_INVALID_VALUE);
	*n = 0;
	return done(err ? err : DRV(cuDeviceGetCount)(n));
}

EXPORT int cudaSetDevice(int dev)
{
	int n, err = rt_driver();

	if (!err)
		err = DRV(cuDeviceGetCount)(&n);
	if (err)
		return rt_fail(err);
	if (dev < 0 || dev >= n)
		return rt_fail(ERR_INVALID_DEVICE);
	self.device = dev;
	self.ready = 0;
	return done(rt_begin("cudaSetDevice"));
}

EXPORT int cudaInitDevice(int dev, u32 device_flags, u32 flags)
{
	(void)device_flags, (void)flags;
	return cudaSetDevice(dev);
}

EXPORT int cudaGetDevice(int *dev)
{
	BEGIN;
	if (!dev)
		return rt_fail(ERR_INVALID_VALUE);
	*dev = self.device;
	return OK;
}

EXPORT int cudaSetDeviceFlags(u32 flags)
{
	int err = rt_driver();

	return done(err ? err : DRV(cuDevicePrimaryCtxSetFlags)(self.device, flags));
}

EXPORT int cudaGetDeviceFlags(u32 *flags)
{
	int active;

	BEGIN;
	return done(DRV(cuDevicePrimaryCtxGetState)(self.device, flags, &active));
}

EXPORT int cudaDeviceGetAttribute(int *v, int attr, int dev)
{
	int err = rt_driver();

	return done(err ? err : DRV(cuDeviceGetAttribute)(v, attr, dev));
}

static int peer_context(int dev, void **ctx)
{
	void *own;

	return dev == self.device ? ERR_INVALID_DEVICE : rt_peers(self.device, dev, &own, ctx);
}

EXPORT int cudaDeviceEnablePeerAccess(int dev, u32 flags)
{
	void *ctx;
	int err;

	BEGIN;
	err = peer_context(dev, &ctx);
	return done(err ? err : DRV(cuCtxEnablePeerAccess)(ctx, flags));
}

EXPORT int cudaDeviceDisablePeerAccess(int dev)
{
	void *ctx;
	int err;

	BEGIN;
	err = peer_context(dev, &ctx);
	return done(err ? err : DRV(cuCtxDisablePeerAccess)(ctx));
}

EXPORT int cudaDeviceReset(void)
{
	int err;

	BEGIN;
	err = DRV(cuDevicePrimaryCtxReset)(self.device);
	rt_forget_variables(self.device);
	lock(&init_lock);
	rt.ctx[self.device] = NULL;
	unlock(&init_lock);
	__atomic_add_fetch(&rt.generation, 1, __ATOMIC_RELEASE);
	return done(err);
}

EXPORT int cudaThreadExit(void)
{
	return cudaDeviceReset();
}

EXPORT int cudaDeviceSynchronize(void)
{
	BEGIN;
	return done(DRV(cuCtxSynchronize)());
}

EXPORT int cudaThreadSynchronize(void)
{
	BEGIN;
	return done(DRV(cuCtxSynchronize)());
}

/* The runtime's own error names, where they differ from the driver's. */
static const struct {
	int code;
	const char *name;
} errors[] = {
	{ 0, "cudaSuccess" },
	{ 1, "cudaErrorInvalidValue" },
	{ 2, "cudaErrorMemoryAllocation" },
	{ 3, "cudaErrorInitializationError" },
	{ 9, "cudaErrorInvalidConfiguration" },
	{ 13, "cudaErrorInvalidSymbol" },
	{ 20, "cudaErrorInvalidChannelDescriptor" },
	{ 21, "cudaErrorInvalidMemcpyDirection" },
	{ 35, "cudaErrorInsufficientDriver" },
	{ 98, "cudaErrorInvalidDeviceFunction" },
	{ 100, "cudaErrorNoDevice" },
	{ 101, "cudaErrorInvalidDevice" },
	{ 200, "cudaErrorInvalidKernelImage" },
	{ 201, "cudaErrorDeviceUninitialized" },
	{ 214, "cudaErrorECCUncorrectable" },
	{ 215, "cudaErrorUnsupportedLimit" },
	{ 218, "cudaErrorInvalidPtx" },
	{ 304, "cudaErrorOperatingSystem" },
	{ 400, "cudaErrorInvalidResourceHandle" },
	{ 401, "cudaErrorIllegalState" },
	{ 500, "cudaErrorSymbolNotFound" },
	{ 600, "cudaErrorNotReady" },
	{ 700, "cudaErrorIllegalAddress" },
	{ 701, "cudaErrorLaunchOutOfResources" },
	{ 702, "cudaErrorLaunchTimeout" },
	{ 709, "cudaErrorContextIsDestroyed" },
	{ 710, "cudaErrorAssert" },
	{ 712, "cudaErrorHostMemoryAlreadyRegistered" },
	{ 713, "cudaErrorHostMemoryNotRegistered" },
	{ 719, "cudaErrorLaunchFailure" },
	{ 801, "cudaErrorNotSupported" },
	{ 900, "cudaErrorStreamCaptureUnsupported" },
	{ 901, "cudaErrorStreamCaptureInvalidated" },
	{ 910, "cudaErrorGraphExecUpdateFailure" },
	{ 999, "cudaErrorUnknown" },
};

EXPORT const char *cudaGetErrorName(int code)
{
	for (u32 i = 0; i < ARRAY_SIZE(errors); i++)
		if (errors[i].code == code)
			return errors[i].name;
	return "unrecognized error code";
}

EXPORT const char *cudaGetErrorString(int code)
{
	const char *s = NULL;

	if (code == ERR_NO_DRIVER)
		return "CUDA driver version is insufficient for CUDA runtime version";
	if (rt_driver() == ERR_NO_DRIVER || DRV(cuGetErrorString)(code, &s) || !s)
		return cudaGetErrorName(code);
	return s;
}

/* Not in the real library: see the driver's functions of the same names. */
EXPORT int simMemory(int dev, int family, struct sim_memory *out)
{
	int err = rt_driver();

	return err ? err : DRV(simMemory)(dev, family, out);
}

EXPORT int simKernelTime(u64 ns)
{
	int err = rt_driver();

	return err ? err : DRV(simKernelTime)(ns);
}

EXPORT int simSetCallHook(call_hook fn)
{
	int err = rt_driver();

	return err ? err : DRV(simSetCallHook)(fn);
}
