/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels of matrix products, for libcublas and libcublasLt. */
#ifndef SIM_BLAS_H
#define SIM_BLAS_H

#include "math.h"

enum {
	BLAS_OK = 0,
	BLAS_NOT_INITIALIZED = 1,
	BLAS_INVALID_VALUE = 7,
	BLAS_EXECUTION_FAILED = 13,
	BLAS_NOT_SUPPORTED = 15
};

/* Element types, as in kernel names. */
enum { TYPE_H, TYPE_B, TYPE_S, TYPE_D, TYPE_C, TYPE_Z, TYPES };

void gemm_register(void);
u32 gemm_type(int data_type);
int gemm(void *stream, u32 type, int ta, int tb, u64 m, u64 n, u64 k, u64 batch);

#endif
