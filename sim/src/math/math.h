/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the simulated cuBLAS and cuDNN: kernels that take the time of their work and
 * leave memory unchanged. */
#ifndef SIM_MATH_H
#define SIM_MATH_H

#include "../base.h"

struct dim3 {
	u32 x, y, z;
};

/* The speed of the device, 10 TFLOP/s and 1.3 TB/s, and the minimum time of a kernel. */
#define FLOPS_PER_NS 10000
#define BYTES_PER_NS 1300
#define KERNEL_NS 2500

/* A registered kernel: a launch names it by its address. */
struct kernel {
	const char *name;
};

void kernels_register(struct kernel *k, u32 n);
int kernel_launch(const struct kernel *k, void *stream, u64 blocks, u64 flops, u64 bytes);
int stream_wait(void *stream);

void *malloc(size_t n);
void free(void *p);

#endif
