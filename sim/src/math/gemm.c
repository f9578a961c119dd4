/* SPDX-License-Identifier: Apache-2.0 */
/* Matrix products: selects NVIDIA's kernel name by type and transposition. */
#include "blas.h"

#define LAYOUTS(name)                                                                              \
	{ name "_nn" }, { name "_nt" }, { name "_tn" },                                            \
	{                                                                                          \
		name "_tt"                                                                         \
	}

static struct kernel kernels[TYPES * 4] = {
	LAYOUTS("ampere_fp16_s16816gemm_fp16_128x64_ldg8_f2f_stages_64x3"),
	LAYOUTS("ampere_bf16_s16816gemm_bf16_128x64_ldg8_f2f_stages_64x3"),
	LAYOUTS("ampere_sgemm_128x64"),
	LAYOUTS("ampere_dgemm_64x64"),
	LAYOUTS("ampere_cgemm_64x64"),
	LAYOUTS("ampere_zgemm_64x64"),
};

static const struct {
	u32 bytes, rate; /* bytes of an element; rate relative to single precision, tenths */
} types[TYPES] = { { 2, 100 }, { 2, 100 }, { 4, 10 }, { 8, 5 }, { 8, 2 }, { 16, 1 } };

void gemm_register(void)
{
	kernels_register(kernels, ARRAY_SIZE(kernels));
}

/* Maps a cudaDataType; unknown types count as single precision. */
u32 gemm_type(int data_type)
{
	switch (data_type) {
	case 2:
		return TYPE_H;
	case 14:
		return TYPE_B;
	case 1:
		return TYPE_D;
	case 4:
		return TYPE_C;
	case 5:
		return TYPE_Z;
	}
	return TYPE_S;
}

int gemm(void *stream, u32 type, int ta, int tb, u64 m, u64 n, u64 k, u64 batch)
{
	const struct kernel *kernel = &kernels[4 * type + 2 * (ta != 0) + (tb != 0)];
	u64 blocks = (m + 127) / 128 * ((n + 63) / 64) * batch;

	if (!m || !n || !batch)
		return BLAS_OK;
	return kernel_launch(kernel, stream, blocks, 20 * m * n * k * batch / types[type].rate,
			     (m * k + k * n + m * n) * batch * types[type].bytes)
		       ? BLAS_EXECUTION_FAILED
		       : BLAS_OK;
}
