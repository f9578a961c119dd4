/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the parts of the simulated cuDNN. */
#ifndef SIM_DNN_H
#define SIM_DNN_H

#include "math.h"

enum {
	DNN_OK = 0,
	DNN_NOT_INITIALIZED = 1001,
	DNN_BAD_PARAM = 2000,
	DNN_NOT_SUPPORTED = 3000,
	DNN_ALLOC_FAILED = 4003,
	DNN_EXECUTION_FAILED = 5000
};

struct dnn_handle {
	void *stream;
};

enum { CONV_FORWARD, CONV_DATA, CONV_FILTER, NORM_TRAIN, NORM_BACKWARD, NORM_INFER, POOL };

#define DIMS 8

/* A descriptor of a tensor, a filter, a convolution, or anything else. */
struct desc {
	int type, n;
	int dims[DIMS], strides[DIMS];
};

u64 dnn_elements(const struct desc *d);
void *dnn_make(void **out, size_t n);
int dnn_run(void *handle, u32 kernel, u64 flops, u64 bytes);

#endif
