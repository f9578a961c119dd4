/* SPDX-License-Identifier: Apache-2.0 */
/* Batch normalization and pooling. Unsupported: recurrent networks, CTC and spatial
 * transformers. */
#include "dnn.h"

#pragma clang diagnostic ignored "-Wunused-parameter"

EXPORT int cudnnGetBatchNormalizationForwardTrainingExWorkspaceSize(void *h, int mode, int ops,
								    void *x, void *z, void *y,
								    void *scale, void *activation,
								    size_t *n)
{
	*n = 0;
	return DNN_OK;
}

EXPORT int cudnnGetBatchNormalizationBackwardExWorkspaceSize(void *h, int mode, int ops, void *x,
							     void *y, void *dy, void *dz, void *dx,
							     void *scale, void *activation,
							     size_t *n)
{
	*n = 0;
	return DNN_OK;
}

EXPORT int cudnnGetBatchNormalizationTrainingExReserveSpaceSize(void *h, int mode, int ops,
								void *activation, void *x,
								size_t *n)
{
	*n = 0;
	return DNN_OK;
}

static int norm(void *h, u32 kernel, const struct desc *x, u32 passes)
{
	return x ? dnn_run(h, kernel, 0, 4 * passes * dnn_elements(x)) : DNN_BAD_PARAM;
}

EXPORT int cudnnBatchNormalizationForwardTrainingEx(
	void *h, int mode, int ops, const void *alpha, const void *beta, struct desc *xd,
	const void *x, struct desc *zd, const void *z, struct desc *yd, void *y, void *scale_desc,
	const void *scale, const void *bias, double factor, void *mean, void *variance,
	double epsilon, void *saved_mean, void *saved_variance, void *activation, void *workspace,
	size_t n, void *reserve, size_t n_reserve)
{
	return norm(h, NORM_TRAIN, xd, 3);
}

EXPORT int cudnnBatchNormalizationForwardInference(void *h, int mode, const void *alpha,
						   const void *beta, struct desc *xd, const void *x,
						   struct desc *yd, void *y, void *scale_desc,
						   const void *scale, const void *bias,
						   const void *mean, const void *variance,
						   double epsilon)
{
	return norm(h, NORM_INFER, xd, 2);
}

EXPORT int cudnnBatchNormalizationBackwardEx(
	void *h, int mode, int ops, const void *alpha_data, const void *beta_data,
	const void *alpha_params, const void *beta_params, struct desc *xd, const void *x,
	struct desc *yd, const void *y, struct desc *dyd, const void *dy, struct desc *dzd,
	void *dz, struct desc *dxd, void *dx, void *scale_desc, const void *scale, const void *bias,
	void *dscale, void *dbias, double epsilon, const void *mean, const void *variance,
	void *activation, void *workspace, size_t n, void *reserve, size_t n_reserve)
{
	return norm(h, NORM_BACKWARD, xd, 5);
}

EXPORT int cudnnPoolingForward(void *h, struct desc *pool, const void *alpha, struct desc *xd,
			       const void *x, const void *beta, struct desc *yd, void *y)
{
	return norm(h, POOL, xd, 1);
}

#define NO(name)                                                                                   \
	EXPORT int name(void)                                                                      \
	{                                                                                          \
		return DNN_NOT_SUPPORTED;                                                          \
	}
NO(cudnnCTCLoss)
NO(cudnnCTCLoss_v8)
NO(cudnnGetCTCLossWorkspaceSize)
NO(cudnnGetCTCLossWorkspaceSize_v8)
NO(cudnnGetRNNTempSpaceSizes)
NO(cudnnGetRNNWeightParams)
NO(cudnnGetRNNWeightSpaceSize)
NO(cudnnRNNBackwardData_v8)
NO(cudnnRNNBackwardWeights_v8)
NO(cudnnRNNForward)
NO(cudnnSetCTCLossDescriptorEx)
NO(cudnnSetCTCLossDescriptor_v9)
NO(cudnnSetRNNDataDescriptor)
NO(cudnnSetRNNDescriptor_v8)
NO(cudnnSetSpatialTransformerNdDescriptor)
NO(cudnnSpatialTfGridGeneratorBackward)
NO(cudnnSpatialTfGridGeneratorForward)
NO(cudnnSpatialTfSamplerBackward)
NO(cudnnSpatialTfSamplerForward)
