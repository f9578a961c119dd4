/* SPDX-License-Identifier: Apache-2.0 */
/* What the simulated cuBLAS and cuDNN share: kernels that take as long as their work
 * would, and leave memory as it is. */
#ifndef SIM_MATH_H
#define SIM_MATH_H

#include "../base.h"

struct dim3 {
	u32 x, y, z;
};

/* The speed of the device: 10 TFLOP/s, 1.3 TB/s, and what each kernel takes at least. */
#define FLOPS_PER_NS 10000
#define BYTES_PER_NS 1300
#define KERNEL_NS 2500

/* A registered kernel: its address is what a launch names. */
struct kernel {
	const char *name;
};

void kernels_register(struct kernel *k, u32 n);
int kernel_launch(const struct kernel *k, void *stream, u64 blocks, u64 flops, u64 bytes);
int stream_wait(void *stream);

void *malloc(size_t n);
void free(void *p);

#endif
