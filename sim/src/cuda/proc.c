/* SPDX-License-Identifier: Apache-2.0 */
/* cuGetProcAddress returns the addresses of the exports themselves, so a probe on an export
 * sees callers that never used the symbol. Also the names of errors. */
#include "gpu.h"

#define X(name, since) extern const char name[];
#define NO X
#define OLD X
#include "exports.def"
#undef X

static const struct export
{
	const char *name;
	int since;
	const char *addr;
}
exports[] = {
#define X(name, since) { #name, since, name },
#include "exports.def"
#undef X
};

/* Returns the name's length without "_v2", "_ptsz" and "_ptds"; v: its version, or 1. */
static size_t base_of(const char *name, int *v, int *per_thread)
{
	size_t n = strlen(name);

	*v = 1;
	*per_thread = 0;
	if (n > 5 && (!strcmp(name + n - 5, "_ptsz") || !strcmp(name + n - 5, "_ptds"))) {
		*per_thread = 1;
		n -= 5;
	}
	if (n > 3 && name[n - 3] == '_' && name[n - 2] == 'v' && name[n - 1] >= '2' &&
	    name[n - 1] <= '9') {
		*v = name[n - 1] - '0';
		n -= 3;
	}
	return n;
}

/* Returns the newest form of a name that a CUDA version knows. A name with a version means
 * that form. From 12.0 on, plain cuGraphInstantiate means the form with flags. */
static const char *find(const char *symbol, int version, int per_thread)
{
	const char *best = NULL;
	int best_rank = 0, wanted, wanted_pt;
	size_t len = base_of(symbol, &wanted, &wanted_pt);

	if (!strcmp(symbol, "cuGraphInstantiate") && version >= 12000)
		symbol = "cuGraphInstantiateWithFlags", len = strlen(symbol);
	for (u32 i = 0; i < ARRAY_SIZE(exports); i++) {
		const struct export *e = &exports[i];
		int v, pt, rank;
		size_t n = base_of(e->name, &v, &pt);

		if (n != len || strncmp(symbol, e->name, n) || pt > per_thread)
			continue;
		if (wanted > 1 ? v != wanted : e->since > version)
			continue;
		rank = 2 * v + pt;
		if (rank > best_rank) {
			best_rank = rank;
			best = e->addr;
		}
	}
	return best;
}

/* flags: 1 legacy default stream, 2 the thread's own; status: 0 found, 1 not found. */
CU(cuGetProcAddress_v2)(const char *symbol, void **fn, int version, u64 flags, int *status)
{
	const char *p;

	if (!symbol || !fn || flags > 2)
		return ERR_INVALID_VALUE;
	p = find(symbol, version, flags == 2);
	*fn = (void *)p;
	if (status)
		*status = p ? 0 : 1;
	return p ? OK : ERR_NOT_FOUND;
}

CU(unsupported)(void)
{
	return *g.live ? ERR_NOT_SUPPORTED : ERR_NOT_INITIALIZED;
}

CU(of_32_bits)(void)
{
	return *g.live ? ERR_INVALID_CONTEXT : ERR_NOT_INITIALIZED;
}

CU(cuGetProcAddress)(const char *symbol, void **fn, int version, u64 flags)
{
	return impl_cuGetProcAddress_v2(symbol, fn, version, flags, NULL);
}

static const struct {
	int code;
	const char *name, *text;
} errors[] = {
	{ 0, "CUDA_SUCCESS", "no error" },
	{ 1, "CUDA_ERROR_INVALID_VALUE", "invalid argument" },
	{ 2, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory" },
	{ 3, "CUDA_ERROR_NOT_INITIALIZED", "initialization error" },
	{ 4, "CUDA_ERROR_DEINITIALIZED", "driver shutting down" },
	{ 98, "CUDA_ERROR_INVALID_DEVICE_FUNCTION", "invalid device function" },
	{ 100, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected" },
	{ 101, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal" },
	{ 200, "CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid" },
	{ 201, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context" },
	{ 214, "CUDA_ERROR_ECC_UNCORRECTABLE", "uncorrectable ECC error encountered" },
	{ 215, "CUDA_ERROR_UNSUPPORTED_LIMIT", "limit is not supported on this architecture" },
	{ 218, "CUDA_ERROR_INVALID_PTX", "a PTX JIT compilation failed" },
	{ 301, "CUDA_ERROR_FILE_NOT_FOUND", "file not found" },
	{ 304, "CUDA_ERROR_OPERATING_SYSTEM",
	  "OS call failed or operation not supported on this OS" },
	{ 400, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle" },
	{ 401, "CUDA_ERROR_ILLEGAL_STATE",
	  "the operation cannot be performed in the present state" },
	{ 500, "CUDA_ERROR_NOT_FOUND", "named symbol not found" },
	{ 600, "CUDA_ERROR_NOT_READY", "device not ready" },
	{ 700, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered" },
	{ 701, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES", "too many resources requested for launch" },
	{ 702, "CUDA_ERROR_LAUNCH_TIMEOUT", "the launch timed out and was terminated" },
	{ 709, "CUDA_ERROR_CONTEXT_IS_DESTROYED", "context is destroyed" },
	{ 710, "CUDA_ERROR_ASSERT", "device-side assert triggered" },
	{ 712, "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED",
	  "part or all of the requested memory range is already mapped" },
	{ 713, "CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED",
	  "pointer does not correspond to a registered memory region" },
	{ 719, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure" },
	{ 801, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported" },
	{ 900, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED",
	  "operation not permitted when stream is capturing" },
	{ 901, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED",
	  "operation failed due to a previous error during capture" },
	{ 910, "CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE", "the graph update was not performed" },
	{ 999, "CUDA_ERROR_UNKNOWN", "unknown error" },
};

static int error_text(int code, const char **s, int want_name)
{
	for (u32 i = 0; i < ARRAY_SIZE(errors); i++)
		if (errors[i].code == code) {
			*s = want_name ? errors[i].name : errors[i].text;
			return OK;
		}
	*s = NULL;
	return ERR_INVALID_VALUE;
}

CU(cuGetErrorName)(int code, const char **s)
{
	return s ? error_text(code, s, 1) : ERR_INVALID_VALUE;
}

CU(cuGetErrorString)(int code, const char **s)
{
	return s ? error_text(code, s, 0) : ERR_INVALID_VALUE;
}
