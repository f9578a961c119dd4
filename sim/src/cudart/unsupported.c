/* SPDX-License-Identifier: Apache-2.0 */
/* Functions that the simulation does not support. */
#include "rt.h"

#define NO(name)                                                                                   \
	EXPORT int name(void)                                                                      \
	{                                                                                          \
		BEGIN;                                                                             \
		return rt_fail(ERR_NOT_SUPPORTED);                                                 \
	}

NO(cudaDestroyExternalMemory)
NO(cudaDeviceGraphMemTrim)
NO(cudaExternalMemoryGetMappedBuffer)
NO(cudaFreeMipmappedArray)
NO(cudaGraphAddNode)
NO(cudaGraphAddNode_v2)
NO(cudaImportExternalMemory)
NO(cudaIpcGetEventHandle)
NO(cudaIpcOpenEventHandle)
NO(cudaMallocMipmappedArray)
NO(cudaMemPoolExportToShareableHandle)
NO(cudaMemPoolImportFromShareableHandle)
NO(cudaMemPoolImportPointer)
NO(cudaMemPrefetchBatchAsync)
NO(cudaMemPrefetchBatchAsync_ptsz)
NO(cudaMemcpy2DArrayToArray)
NO(cudaMemcpy2DArrayToArray_ptds)
NO(cudaMemcpy3DBatchAsync)
NO(cudaMemcpy3DBatchAsync_ptsz)
NO(cudaMemcpyWithAttributesAsync)
NO(cudaMemcpyWithAttributesAsync_ptsz)
NO(cudaMemcpyArrayToArray)
NO(cudaMemcpyArrayToArray_ptds)
NO(cudaMemcpyBatchAsync)
NO(cudaMemcpyBatchAsync_ptsz)
NO(cudaSignalExternalSemaphoresAsync)
NO(cudaSignalExternalSemaphoresAsync_ptsz)
NO(cudaSignalExternalSemaphoresAsync_v2)
NO(cudaSignalExternalSemaphoresAsync_v2_ptsz)
NO(cudaStreamAttachMemAsync)
NO(cudaStreamAttachMemAsync_ptsz)
NO(cudaWaitExternalSemaphoresAsync)
NO(cudaWaitExternalSemaphoresAsync_ptsz)
NO(cudaWaitExternalSemaphoresAsync_v2)
NO(cudaWaitExternalSemaphoresAsync_v2_ptsz)
