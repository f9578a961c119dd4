/* SPDX-License-Identifier: Apache-2.0 */
/* libnvToolsExt of NVTX 2. It acts as without a profiler, unless INGERO_SIM_NVTX is set:
 * then ranges that start have numbers. */
#include "base.h"

#define NO_TRACKING (-2) /* NVTX_NO_PUSH_POP_TRACKING */

static u64 numbers;

static int listening(void)
{
	static int known; /* 1: off, 2: on */

	if (!known)
		known = getenv("INGERO_SIM_NVTX") ? 2 : 1;
	return known == 2;
}

static int pushed(void)
{
	return listening() ? 0 : NO_TRACKING;
}

static u64 started(void)
{
	return listening() ? __atomic_add_fetch(&numbers, 1, __ATOMIC_RELAXED) : 0;
}

EXPORT int nvtxRangePushA(const char *message)
{
	(void)message;
	return pushed();
}
EXPORT int nvtxRangePushW(const u32 *message)
{
	(void)message;
	return pushed();
}
EXPORT int nvtxRangePushEx(const void *attr)
{
	(void)attr;
	return pushed();
}
EXPORT int nvtxRangePop(void)
{
	return pushed();
}
EXPORT u64 nvtxRangeStartA(const char *message)
{
	(void)message;
	return started();
}
EXPORT u64 nvtxRangeStartW(const u32 *message)
{
	(void)message;
	return started();
}
EXPORT u64 nvtxRangeStartEx(const void *attr)
{
	(void)attr;
	return started();
}
EXPORT void nvtxRangeEnd(u64 id)
{
	(void)id;
}
EXPORT int nvtxDomainRangePushEx(void *domain, const void *attr)
{
	(void)domain;
	(void)attr;
	return pushed();
}
EXPORT int nvtxDomainRangePop(void *domain)
{
	(void)domain;
	return pushed();
}
EXPORT u64 nvtxDomainRangeStartEx(void *domain, const void *attr)
{
	(void)domain;
	(void)attr;
	return started();
}
EXPORT void nvtxDomainRangeEnd(void *domain, u64 id)
{
	(void)domain;
	(void)id;
}
EXPORT void *nvtxDomainCreateA(const char *name)
{
	(void)name;
	return NULL;
}
EXPORT void nvtxMarkA(const char *message)
{
	(void)message;
}
