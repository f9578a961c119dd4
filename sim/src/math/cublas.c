/* SPDX-License-Identifier: Apache-2.0 */
/* The part of cuBLAS 12 that PyTorch uses. Each product is one kernel, whose time follows
 * from its shape; result memory is left unchanged. */
#include "blas.h"

struct handle {
	void *stream;
	int math_mode, pointer_mode;
};

#define HANDLE(h)                                                                                  \
	struct handle *ctx = h;                                                                    \
	if (!ctx)                                                                                  \
	return BLAS_NOT_INITIALIZED

static struct kernel gemv_kernels[] = {
	{ "_Z17gemv2N_kernel_valIffLi128EEvPKT_S2_PS0_i" },
	{ "_Z17gemv2N_kernel_valIddLi128EEvPKT_S2_PS0_i" },
};

static struct kernel other_kernels[] = {
	{ "_Z10dot_kernelIfLi128ELi0EEvPKT_S2_PS0_i" },
	{ "_Z16trsm_left_kernelIfLi256ELi4EEvPKT_PS0_i" },
	{ "_Z19getrf_batch_kernelsIfLi32EEvPPT_Pii" },
	{ "_Z19geqrf_batch_kernelsIfLi32EEvPPT_S2_i" },
};

enum { DOT, TRSM, GETRF, GEQRF };

__attribute__((constructor)) static void start(void)
{
	gemm_register();
	kernels_register(gemv_kernels, ARRAY_SIZE(gemv_kernels));
	kernels_register(other_kernels, ARRAY_SIZE(other_kernels));
}

EXPORT int cublasCreate_v2(void **h)
{
	struct handle *ctx = h ? malloc(sizeof(*ctx)) : NULL;

	if (!ctx)
		return h ? 3 : BLAS_INVALID_VALUE;
	memset(ctx, 0, sizeof(*ctx));
	*h = ctx;
	return BLAS_OK;
}

EXPORT int cublasDestroy_v2(void *h)
{
	HANDLE(h);
	free(ctx);
	return BLAS_OK;
}

EXPORT int cublasGetVersion_v2(void *h, int *v)
{
	(void)h;
	*v = 120405;
	return BLAS_OK;
}

EXPORT int cublasSetStream_v2(void *h, void *stream)
{
	HANDLE(h);
	ctx->stream = stream;
	return BLAS_OK;
}

EXPORT int cublasGetStream_v2(void *h, void **stream)
{
	HANDLE(h);
	*stream = ctx->stream;
	return BLAS_OK;
}

EXPORT int cublasSetWorkspace_v2(void *h, void *p, size_t n)
{
	HANDLE(h);
	return p || !n ? BLAS_OK : BLAS_INVALID_VALUE;
}

EXPORT int cublasSetMathMode(void *h, int mode)
{
	HANDLE(h);
	ctx->math_mode = mode;
	return BLAS_OK;
}

EXPORT int cublasGetMathMode(void *h, int *mode)
{
	HANDLE(h);
	*mode = ctx->math_mode;
	return BLAS_OK;
}

EXPORT int cublasSetPointerMode_v2(void *h, int mode)
{
	HANDLE(h);
	ctx->pointer_mode = mode;
	return BLAS_OK;
}

EXPORT int cublasGetPointerMode_v2(void *h, int *mode)
{
	HANDLE(h);
	*mode = ctx->pointer_mode;
	return BLAS_OK;
}

static int product(void *h, u32 type, int ta, int tb, int m, int n, int k, int batch)
{
	HANDLE(h);
	if (m < 0 || n < 0 || k < 0 || batch < 0)
		return BLAS_INVALID_VALUE;
	return gemm(ctx->stream, type, ta, tb, (u64)m, (u64)n, (u64)k, (u64)batch);
}

/* The matrices' addresses and layout have no effect. */
#pragma clang diagnostic ignored "-Wunused-parameter"

#define GEMM(letter)                                                                               \
	EXPORT int cublas##letter##gemm_v2(                                                        \
		void *h, int ta, int tb, int m, int n, int k, const void *alpha, const void *a,    \
		int lda, const void *b, int ldb, const void *beta, void *c, int ldc)               \
	{                                                                                          \
		return product(h, TYPE_##letter, ta, tb, m, n, k, 1);                              \
	}                                                                                          \
	EXPORT int cublas##letter##gemmStridedBatched(                                             \
		void *h, int ta, int tb, int m, int n, int k, const void *alpha, const void *a,    \
		int lda, s64 sa, const void *b, int ldb, s64 sb, const void *beta, void *c,        \
		int ldc, s64 sc, int batch)                                                        \
	{                                                                                          \
		return product(h, TYPE_##letter, ta, tb, m, n, k, batch);                          \
	}
GEMM(S)
GEMM(D)
GEMM(C)
GEMM(Z)
GEMM(H)

EXPORT int cublasSgemmEx(void *h, int ta, int tb, int m, int n, int k, const float *alpha,
			 const void *a, int ta_type, int lda, const void *b, int tb_type, int ldb,
			 const float *beta, void *c, int tc_type, int ldc)
{
	return product(h, gemm_type(ta_type), ta, tb, m, n, k, 1);
}

EXPORT int cublasGemmEx(void *h, int ta, int tb, int m, int n, int k, const void *alpha,
			const void *a, int ta_type, int lda, const void *b, int tb_type, int ldb,
			const void *beta, void *c, int tc_type, int ldc, int compute, int algo)
{
	return product(h, gemm_type(ta_type), ta, tb, m, n, k, 1);
}

EXPORT int cublasGemmStridedBatchedEx(void *h, int ta, int tb, int m, int n, int k,
				      const void *alpha, const void *a, int ta_type, int lda,
				      s64 sa, const void *b, int tb_type, int ldb, s64 sb,
				      const void *beta, void *c, int tc_type, int ldc, s64 sc,
				      int batch, int compute, int algo)
{
	return product(h, gemm_type(ta_type), ta, tb, m, n, k, batch);
}

/* Launches one kernel for a vector of n elements, or for a batch of n. */
static int vector(void *h, const struct kernel *k, int n, u64 flops, u64 bytes)
{
	HANDLE(h);
	if (n < 0)
		return BLAS_INVALID_VALUE;
	if (!n)
		return BLAS_OK;
	return kernel_launch(k, ctx->stream, ((u64)n + 255) / 256, flops, bytes)
		       ? BLAS_EXECUTION_FAILED
		       : BLAS_OK;
}

#define GEMV(letter, kernel)                                                                       \
	EXPORT int cublas##letter##gemv_v2(void *h, int trans, int m, int n, const void *alpha,    \
					   const void *a, int lda, const void *x, int incx,        \
					   const void *beta, void *y, int incy)                    \
	{                                                                                          \
		return vector(h, &gemv_kernels[kernel], m, 2ull * (u32)m * (u32)n,                 \
			      4ull * (u32)m * (u32)n);                                             \
	}
GEMV(S, 0)
GEMV(D, 1)
GEMV(C, 0)
GEMV(Z, 1)

/* If the result is on the host, the call waits and sets it to 0. */
static int dot(void *h, int n, void *result, size_t size)
{
	int err = vector(h, &other_kernels[DOT], n, 2ull * (u32)n, 8ull * (u32)n);

	if (err || ((struct handle *)h)->pointer_mode)
		return err;
	memset(result, 0, size);
	return stream_wait(((struct handle *)h)->stream) ? BLAS_EXECUTION_FAILED : BLAS_OK;
}

#define DOT_CALL(name, size)                                                                       \
	EXPORT int name(void *h, int n, const void *x, int incx, const void *y, int incy,          \
			void *result)                                                              \
	{                                                                                          \
		return dot(h, n, result, size);                                                    \
	}
DOT_CALL(cublasSdot_v2, 4)
DOT_CALL(cublasDdot_v2, 8)
DOT_CALL(cublasCdotu_v2, 8)
DOT_CALL(cublasCdotc_v2, 8)
DOT_CALL(cublasZdotu_v2, 16)
DOT_CALL(cublasZdotc_v2, 16)

EXPORT int cublasDotEx(void *h, int n, const void *x, int x_type, int incx, const void *y,
		       int y_type, int incy, void *result, int result_type, int execution)
{
	return dot(h, n, result, result_type == 2 || result_type == 14 ? 2 : 4);
}

/* Solves m by m systems with n right-hand sides, batch times. */
static int solve(void *h, u32 kernel, int m, int n, int batch)
{
	u64 flops = (u64)(u32)m * (u32)m * (u32)n * (u32)batch;

	return batch < 0 ? BLAS_INVALID_VALUE
			 : vector(h, &other_kernels[kernel], m * n ? batch : 0, flops,
				  4 * flops / 16);
}

#define SOLVE(letter)                                                                              \
	EXPORT int cublas##letter##trsm_v2(void *h, int side, int uplo, int trans, int diag,       \
					   int m, int n, const void *alpha, const void *a,         \
					   int lda, void *b, int ldb)                              \
	{                                                                                          \
		return solve(h, TRSM, m, n, 1);                                                    \
	}                                                                                          \
	EXPORT int cublas##letter##trsmBatched(void *h, int side, int uplo, int trans, int diag,   \
					       int m, int n, const void *alpha, const void *a,     \
					       int lda, void *b, int ldb, int batch)               \
	{                                                                                          \
		return solve(h, TRSM, m, n, batch);                                                \
	}                                                                                          \
	EXPORT int cublas##letter##getrfBatched(void *h, int n, void *a, int lda, int *pivots,     \
						int *info, int batch)                              \
	{                                                                                          \
		return solve(h, GETRF, n, n, batch);                                               \
	}                                                                                          \
	EXPORT int cublas##letter##getrsBatched(void *h, int trans, int n, int rhs, const void *a, \
						int lda, const int *pivots, void *b, int ldb,      \
						int *info, int batch)                              \
	{                                                                                          \
		*info = 0;                                                                         \
		return solve(h, TRSM, n, rhs, batch);                                              \
	}                                                                                          \
	EXPORT int cublas##letter##geqrfBatched(void *h, int m, int n, void *a, int lda,           \
						void *tau, int *info, int batch)                   \
	{                                                                                          \
		*info = 0;                                                                         \
		return solve(h, GEQRF, m, n, batch);                                               \
	}                                                                                          \
	EXPORT int cublas##letter##gelsBatched(void *h, int trans, int m, int n, int rhs, void *a, \
					       int lda, void *c, int ldc, int *info,               \
					       int *dev_info, int batch)                           \
	{                                                                                          \
		*info = 0;                                                                         \
		return solve(h, GEQRF, m, n, batch);                                               \
	}
SOLVE(S)
SOLVE(D)
SOLVE(C)
SOLVE(Z)
