/* SPDX-License-Identifier: Apache-2.0 */
/* Functions that the simulation does not support. */
#include "nccl.h"

#define NO(name)                                                                                   \
	EXPORT ncclResult_t name(void)                                                             \
	{                                                                                          \
		return nccl_fail(NCCL_USAGE, "not simulated");                                     \
	}

NO(ncclAllGatherConfig)
NO(ncclAllReduceConfig)
NO(ncclAlltoAllConfig)
NO(ncclBroadcastConfig)
NO(ncclCommDeregister)
NO(ncclCommGrow)
NO(ncclCommRegister)
NO(ncclCommRevoke)
NO(ncclCommShrink)
NO(ncclCommWindowDeregister)
NO(ncclCommWindowRegister)
NO(ncclGatherConfig)
NO(ncclGroupSimulateEnd)
NO(ncclPutSignal)
NO(ncclReduceConfig)
NO(ncclReduceScatterConfig)
NO(ncclRedOpCreatePreMulSum)
NO(ncclRedOpDestroy)
NO(ncclScatterConfig)
NO(ncclSignal)
NO(ncclWaitSignal)
