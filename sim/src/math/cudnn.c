/* SPDX-License-Identifier: Apache-2.0 */
/* The part of cuDNN 9 that PyTorch uses: handles, descriptors, convolutions. norm.c has
 * normalization and pooling, backend.c the graph interface. Each operation is one kernel,
 * whose time follows from its shape; result memory is left unchanged. */
#include "dnn.h"

#pragma clang diagnostic ignored "-Wunused-parameter"

#define VERSION 90300

struct perf { /* cudnnConvolution*AlgoPerf_t */
	int algo, status;
	float time;
	size_t memory;
	int determinism, math_type, reserved[3];
};

_Static_assert(sizeof(struct perf) == 48, "of cudnnConvolutionFwdAlgoPerf_t");

static struct kernel kernels[] = {
	[CONV_FORWARD] = { "implicit_convolve_sgemm_128x64_nn" },
	[CONV_DATA] = { "cudnn_ampere_scudnn_128x64_stridedB_splitK_small_nn_v1" },
	[CONV_FILTER] = { "ampere_scudnn_128x64_stridedB_splitK_interior_nn_v1" },
	[NORM_TRAIN] = { "_Z31bn_fw_tr_1C11_singleread_kernelIfLi512ELb1ELi1EEvPKfPfi" },
	[NORM_BACKWARD] = { "_Z26bn_bw_1C11_kernel_new_implIfLi512ELi1EEvPKfS1_Pfi" },
	[NORM_INFER] = { "_Z17bn_fw_inf_1C11_NHIfLb1EEvPKfPfi" },
	[POOL] = { "_Z23pooling_fw_4d_kernel_maIfLb0EEvPKfPfi" },
};

__attribute__((constructor)) static void start(void)
{
	kernels_register(kernels, ARRAY_SIZE(kernels));
}

void *dnn_make(void **out, size_t n)
{
	if (!out)
		return NULL;
	*out = malloc(n);
	if (*out)
		memset(*out, 0, n);
	return *out;
}

int dnn_run(void *handle, u32 kernel, u64 flops, u64 bytes)
{
	if (!handle)
		return DNN_NOT_INITIALIZED;
	return kernel_launch(&kernels[kernel], ((struct dnn_handle *)handle)->stream,
			     bytes / 65536 + 1, flops, bytes)
		       ? DNN_EXECUTION_FAILED
		       : DNN_OK;
}

EXPORT size_t cudnnGetVersion(void)
{
	return VERSION;
}

EXPORT size_t cudnnGetCudartVersion(void)
{
	return 12040;
}

EXPORT int cudnnGetProperty(int which, int *value)
{
	int parts[] = { VERSION / 10000, VERSION / 100 % 100, VERSION % 100 };

	if (which < 0 || which > 2 || !value)
		return DNN_BAD_PARAM;
	*value = parts[which];
	return DNN_OK;
}

EXPORT const char *cudnnGetErrorString(int status)
{
	switch (status) {
	case DNN_OK:
		return "CUDNN_STATUS_SUCCESS";
	case DNN_NOT_INITIALIZED:
		return "CUDNN_STATUS_NOT_INITIALIZED";
	case DNN_BAD_PARAM:
		return "CUDNN_STATUS_BAD_PARAM";
	case DNN_NOT_SUPPORTED:
		return "CUDNN_STATUS_NOT_SUPPORTED";
	case DNN_ALLOC_FAILED:
		return "CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED";
	case DNN_EXECUTION_FAILED:
		return "CUDNN_STATUS_EXECUTION_FAILED";
	}
	return "CUDNN_UNKNOWN_STATUS";
}

EXPORT void cudnnGetLastErrorString(char *text, size_t n)
{
	if (n)
		*text = 0;
}

EXPORT int cudnnCreate(void **h)
{
	return dnn_make(h, sizeof(struct dnn_handle)) ? DNN_OK : DNN_ALLOC_FAILED;
}

EXPORT int cudnnDestroy(void *h)
{
	free(h);
	return DNN_OK;
}

EXPORT int cudnnSetStream(void *h, void *stream)
{
	if (!h)
		return DNN_NOT_INITIALIZED;
	((struct dnn_handle *)h)->stream = stream;
	return DNN_OK;
}

EXPORT int cudnnGetStream(void *h, void **stream)
{
	if (!h || !stream)
		return h ? DNN_BAD_PARAM : DNN_NOT_INITIALIZED;
	*stream = ((struct dnn_handle *)h)->stream;
	return DNN_OK;
}

#define DESCRIPTOR(kind)                                                                           \
	EXPORT int cudnnCreate##kind##Descriptor(void **d)                                         \
	{                                                                                          \
		return dnn_make(d, sizeof(struct desc)) ? DNN_OK : DNN_ALLOC_FAILED;               \
	}                                                                                          \
	EXPORT int cudnnDestroy##kind##Descriptor(void *d)                                         \
	{                                                                                          \
		free(d);                                                                           \
		return DNN_OK;                                                                     \
	}
DESCRIPTOR(Activation)
DESCRIPTOR(CTCLoss)
DESCRIPTOR(Convolution)
DESCRIPTOR(Dropout)
DESCRIPTOR(Filter)
DESCRIPTOR(Pooling)
DESCRIPTOR(RNN)
DESCRIPTOR(RNNData)
DESCRIPTOR(SpatialTransformer)
DESCRIPTOR(Tensor)

static int set_dims(struct desc *d, int type, int n, const int *dims, const int *strides)
{
	if (!d || n < 1 || n > DIMS || !dims)
		return DNN_BAD_PARAM;
	d->type = type;
	d->n = n;
	memcpy(d->dims, dims, (size_t)n * sizeof(*dims));
	if (strides)
		memcpy(d->strides, strides, (size_t)n * sizeof(*strides));
	return DNN_OK;
}

EXPORT int cudnnSetTensorNdDescriptor(struct desc *d, int type, int n, const int *dims,
				      const int *strides)
{
	return set_dims(d, type, n, dims, strides);
}

EXPORT int cudnnSetFilterNdDescriptor(struct desc *d, int type, int format, int n, const int *dims)
{
	return set_dims(d, type, n, dims, NULL);
}

static int get_dims(const struct desc *d, int wanted, int *type, int *n, int *dims, int *second)
{
	size_t bytes;

	if (!d || !type || !n || !dims || !second || wanted < 0)
		return DNN_BAD_PARAM;
	bytes = sizeof(*dims) * (size_t)(wanted < d->n ? wanted : d->n);
	*type = d->type;
	*n = d->n;
	memcpy(dims, d->dims, bytes);
	return DNN_OK;
}

EXPORT int cudnnGetTensorNdDescriptor(const struct desc *d, int wanted, int *type, int *n,
				      int *dims, int *strides)
{
	int err = get_dims(d, wanted, type, n, dims, strides);

	if (!err)
		memcpy(strides, d->strides, sizeof(*strides) * (size_t)(wanted < *n ? wanted : *n));
	return err;
}

EXPORT int cudnnGetFilterNdDescriptor(const struct desc *d, int wanted, int *type, int *format,
				      int *n, int *dims)
{
	int err = get_dims(d, wanted, type, n, dims, format);

	if (!err)
		*format = 0;
	return err;
}

EXPORT int cudnnSetConvolutionNdDescriptor(struct desc *d, int n, const int *pad, const int *stride,
					   const int *dilation, int mode, int type)
{
	return set_dims(d, type, n, stride, dilation);
}

EXPORT int cudnnSetConvolutionGroupCount(struct desc *d, int groups)
{
	return d && groups > 0 ? DNN_OK : DNN_BAD_PARAM;
}

EXPORT int cudnnSetConvolutionMathType(struct desc *d, int type)
{
	return d ? DNN_OK : DNN_BAD_PARAM;
}

EXPORT int cudnnSetActivationDescriptor(struct desc *d, int mode, int nan, double coefficient)
{
	return d ? DNN_OK : DNN_BAD_PARAM;
}

EXPORT int cudnnSetPooling2dDescriptor(struct desc *d, int mode, int nan, int h, int w, int vpad,
				       int hpad, int vstride, int hstride)
{
	return d ? DNN_OK : DNN_BAD_PARAM;
}

EXPORT int cudnnDropoutGetStatesSize(void *h, size_t *n)
{
	*n = 1 << 20;
	return DNN_OK;
}

EXPORT int cudnnSetDropoutDescriptor(struct desc *d, void *h, float dropout, void *states, size_t n,
				     unsigned long long seed)
{
	return d ? DNN_OK : DNN_BAD_PARAM;
}

EXPORT int cudnnRestoreDropoutDescriptor(struct desc *d, void *h, float dropout, void *states,
					 size_t n, unsigned long long seed)
{
	return d ? DNN_OK : DNN_BAD_PARAM;
}

u64 dnn_elements(const struct desc *d)
{
	u64 n = d ? 1 : 0;

	for (int i = 0; d && i < d->n; i++)
		n *= (u64)(u32)d->dims[i];
	return n;
}

/* Each element of the output takes one product per weight of a filter. */
static int convolve(void *h, u32 kernel, const struct desc *in, const struct desc *filter,
		    const struct desc *out)
{
	u64 each = filter && filter->dims[0] ? dnn_elements(filter) / (u32)filter->dims[0] : 0;

	if (!in || !filter || !out)
		return DNN_BAD_PARAM;
	return dnn_run(h, kernel, 2 * dnn_elements(out) * each,
		       4 * (dnn_elements(in) + dnn_elements(filter) + dnn_elements(out)));
}

EXPORT int cudnnConvolutionForward(void *h, const void *alpha, struct desc *xd, const void *x,
				   struct desc *wd, const void *w, struct desc *conv, int algo,
				   void *workspace, size_t n, const void *beta, struct desc *yd,
				   void *y)
{
	return convolve(h, CONV_FORWARD, xd, wd, yd);
}

EXPORT int cudnnConvolutionBiasActivationForward(void *h, const void *alpha1, struct desc *xd,
						 const void *x, struct desc *wd, const void *w,
						 struct desc *conv, int algo, void *workspace,
						 size_t n, const void *alpha2, struct desc *zd,
						 const void *z, struct desc *bd, const void *bias,
						 struct desc *activation, struct desc *yd, void *y)
{
	return convolve(h, CONV_FORWARD, xd, wd, yd);
}

EXPORT int cudnnConvolutionBackwardData(void *h, const void *alpha, struct desc *wd, const void *w,
					struct desc *dyd, const void *dy, struct desc *conv,
					int algo, void *workspace, size_t n, const void *beta,
					struct desc *dxd, void *dx)
{
	return convolve(h, CONV_DATA, dxd, wd, dyd);
}

EXPORT int cudnnConvolutionBackwardFilter(void *h, const void *alpha, struct desc *xd,
					  const void *x, struct desc *dyd, const void *dy,
					  struct desc *conv, int algo, void *workspace, size_t n,
					  const void *beta, struct desc *dwd, void *dw)
{
	return convolve(h, CONV_FILTER, xd, dwd, dyd);
}

/* There is one algorithm, and it needs no workspace. */
static int algorithms(int wanted, int *found, struct perf *out)
{
	if (wanted < 1 || !found || !out)
		return DNN_BAD_PARAM;
	memset(out, 0, sizeof(*out));
	out->algo = 1;
	out->time = 0.01f;
	*found = 1;
	return DNN_OK;
}

#define ALGORITHMS(kind)                                                                           \
	EXPORT int cudnnGetConvolution##kind##Algorithm_v7(void *h, void *a, void *b, void *conv,  \
							   void *c, int wanted, int *found,        \
							   struct perf *out)                       \
	{                                                                                          \
		return algorithms(wanted, found, out);                                             \
	}                                                                                          \
	EXPORT int cudnnFindConvolution##kind##AlgorithmEx(                                        \
		void *h, void *ad, const void *a, void *bd, const void *b, void *conv, void *cd,   \
		void *c, int wanted, int *found, struct perf *out, void *workspace, size_t n)      \
	{                                                                                          \
		return algorithms(wanted, found, out);                                             \
	}                                                                                          \
	EXPORT int cudnnGetConvolution##kind##WorkspaceSize(void *h, void *a, void *b, void *conv, \
							    void *c, int algo, size_t *n)          \
	{                                                                                          \
		*n = 0;                                                                            \
		return DNN_OK;                                                                     \
	}
ALGORITHMS(Forward)
ALGORITHMS(BackwardData)
ALGORITHMS(BackwardFilter)
