package events

import "slices"

// Catalog is the table of traced functions. A row's number never changes its meaning; a new row
// takes a free number of its source.
//
// Source: the CUDA runtime and driver headers (cuda_runtime_api.h, cuda.h) of CUDA 11 to 13, nccl.h
// of NCCL 2, and nvToolsExt.h of NVTX 2. Names ending in .v1 are the 32-bit forms from before CUDA
// 3.2, or the first forms of later functions, which libcuda still exports under the plain name.
// Names ending in .v11 and .v12 are what that version of the runtime, and older ones, export under
// the plain name.
// older ones, export under it.
//
// Deliberately left out: query functions that programs call all the time (cudaGetLastError,
// cudaGetDevice, cudaStreamIsCapturing, cudaPointerGetAttributes, cudaFuncGetAttributes, the
// occupancy functions), and graphics functions.
var Catalog = slices.Concat(runtimeRows, driverRows, graphRows, ncclRows, nvtxRows)
