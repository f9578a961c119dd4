/* SPDX-License-Identifier: Apache-2.0 */
/* The part of cuBLASLt 12 that PyTorch uses. */
#include "blas.h"

#pragma clang diagnostic ignored "-Wunused-parameter"

struct operation {
	int transposed[2];
};

struct layout {
	int type;
	u64 rows, cols;
	int batch;
};

/* Result of cublasLtMatmulAlgoGetHeuristic. */
struct heuristic {
	u64 algorithm[8];
	size_t workspace;
	int state;
	float waves;
	int reserved[4];
};

_Static_assert(sizeof(struct heuristic) == 96, "of cublasLtMatmulHeuristicResult_t");

enum { ATTRIBUTE_TRANSA = 3, ATTRIBUTE_TRANSB = 4, LAYOUT_BATCH = 5 };

__attribute__((constructor)) static void start(void)
{
	gemm_register();
}

static void *make(void **out, size_t n)
{
	*out = malloc(n);
	if (*out)
		memset(*out, 0, n);
	return *out;
}

static int drop(void *p)
{
	free(p);
	return BLAS_OK;
}

EXPORT int cublasLtCreate(void **h)
{
	return make(h, 16) ? BLAS_OK : 3;
}

EXPORT int cublasLtDestroy(void *h)
{
	return drop(h);
}

EXPORT int cublasLtMatmulDescCreate(void **d, int compute, int scale)
{
	return make(d, sizeof(struct operation)) ? BLAS_OK : 3;
}

EXPORT int cublasLtMatmulDescDestroy(void *d)
{
	return drop(d);
}

EXPORT int cublasLtMatmulDescSetAttribute(void *d, int attribute, const void *value, size_t n)
{
	struct operation *op = d;

	if (!op || !value)
		return BLAS_INVALID_VALUE;
	if ((attribute == ATTRIBUTE_TRANSA || attribute == ATTRIBUTE_TRANSB) && n == sizeof(int))
		memcpy(&op->transposed[attribute - ATTRIBUTE_TRANSA], value, n);
	return BLAS_OK;
}

EXPORT int cublasLtMatrixLayoutCreate(void **l, int type, u64 rows, u64 cols, s64 ld)
{
	struct layout *layout = make(l, sizeof(*layout));

	if (!layout)
		return 3;
	*layout = (struct layout){ type, rows, cols, 1 };
	return BLAS_OK;
}

EXPORT int cublasLtMatrixLayoutDestroy(void *l)
{
	return drop(l);
}

EXPORT int cublasLtMatrixLayoutSetAttribute(void *l, int attribute, const void *value, size_t n)
{
	if (!l || !value)
		return BLAS_INVALID_VALUE;
	if (attribute == LAYOUT_BATCH && n == sizeof(int))
		memcpy(&((struct layout *)l)->batch, value, n);
	return BLAS_OK;
}

EXPORT int cublasLtMatmulPreferenceCreate(void **p)
{
	return make(p, 16) ? BLAS_OK : 3;
}

EXPORT int cublasLtMatmulPreferenceDestroy(void *p)
{
	return drop(p);
}

EXPORT int cublasLtMatmulPreferenceSetAttribute(void *p, int attribute, const void *value, size_t n)
{
	return p && value ? BLAS_OK : BLAS_INVALID_VALUE;
}

EXPORT int cublasLtMatmulAlgoGetHeuristic(void *h, void *op, void *a, void *b, void *c, void *d,
					  void *preference, int wanted, struct heuristic *out,
					  int *found)
{
	if (!op || !a || !b || !c || !d || !out || !found || wanted < 1)
		return BLAS_INVALID_VALUE;
	memset(out, 0, sizeof(*out));
	out->waves = 1;
	*found = 1;
	return BLAS_OK;
}

EXPORT int cublasLtMatmul(void *h, const struct operation *op, const void *alpha, const void *a,
			  const struct layout *al, const void *b, const struct layout *bl,
			  const void *beta, const void *c, const struct layout *cl, void *d,
			  const struct layout *dl, const void *algorithm, void *workspace,
			  size_t workspace_size, void *stream)
{
	if (!op || !al || !dl)
		return BLAS_INVALID_VALUE;
	return gemm(stream, gemm_type(al->type), op->transposed[0], op->transposed[1], dl->rows,
		    dl->cols, op->transposed[0] ? al->rows : al->cols, (u64)(u32)al->batch);
}
