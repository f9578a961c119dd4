/* SPDX-License-Identifier: Apache-2.0 */
/* cuDNN's graph interface, as far as convolutions need it. A descriptor may be destroyed
 * before its plan runs, so each descriptor copies the operation from those set on it. There
 * is one engine. Numbers are those of cudnn_graph.h. */
#include "dnn.h"

enum { TYPE_INT64 = 3, TYPE_DESCRIPTOR = 15 };
enum { DESC_PLAN = 5, DESC_FORWARD = 10, DESC_FILTER, DESC_DATA };

enum {
	HEUR_RESULTS = 202,
	ENGINECFG_ENGINE = 300,
	FORWARD_W = 703,
	FORWARD_Y = 705,
	DATA_W = 709,
	DATA_DY = 711,
	FILTER_DW = 715,
	FILTER_DY = 717,
	TENSOR_DIMENSIONS = 902,
};

struct operation {
	int known;
	u32 kernel;
	u64 flops, bytes;
};

struct node {
	int type;
	u64 size, first; /* of a tensor: elements, and the first dimension */
	u64 weights, outputs, filters; /* of a convolution */
	struct operation op; /* of a plan or engine */
};

EXPORT int cudnnBackendCreateDescriptor(int type, void **d)
{
	struct node *node = dnn_make(d, sizeof(*node));

	if (!node)
		return DNN_ALLOC_FAILED;
	node->type = type;
	return DNN_OK;
}

EXPORT int cudnnBackendDestroyDescriptor(void *d)
{
	free(d);
	return DNN_OK;
}

static void set_dimensions(struct node *d, s64 n, const s64 *dims)
{
	d->first = n ? (u64)dims[0] : 0;
	d->size = n ? 1 : 0;
	for (s64 i = 0; i < n; i++)
		d->size *= (u64)dims[i];
}

static void set_descriptor(struct node *d, int attribute, const struct node *to)
{
	switch (attribute) {
	case FORWARD_W:
	case DATA_W:
	case FILTER_DW:
		d->weights = to->size;
		d->filters = to->first;
		break;
	case FORWARD_Y:
	case DATA_DY:
	case FILTER_DY:
		d->outputs = to->size;
		break;
	default:
		if (to->op.known)
			d->op = to->op;
	}
}

/* Keeps sizes of tensors, and the first of each array of descriptors. */
EXPORT int cudnnBackendSetAttribute(struct node *d, int attribute, int type, s64 n,
				    const void *values)
{
	if (!d || n < 0 || (n && !values))
		return DNN_BAD_PARAM;
	if (attribute == TENSOR_DIMENSIONS && type == TYPE_INT64)
		set_dimensions(d, n, values);
	if (type == TYPE_DESCRIPTOR && n)
		set_descriptor(d, attribute, *(struct node *const *)values);
	return DNN_OK;
}

EXPORT int cudnnBackendGetAttribute(const struct node *d, int attribute, int type, s64 room, s64 *n,
				    void *values)
{
	s64 found = 0;

	if (!d || room < 0)
		return DNN_BAD_PARAM;
	if (attribute == HEUR_RESULTS || attribute == ENGINECFG_ENGINE) {
		found = 1; /* fills in the caller's descriptor */
		if (room && values)
			(*(struct node **)values)->op = d->op;
	} else if (type == TYPE_INT64) {
		found = 1;
		if (room && values)
			*(s64 *)values = 0;
	}
	if (n)
		*n = found;
	return DNN_OK;
}

/* Each element of the output takes one product per weight of a filter. */
static void finalize_convolution(struct node *d)
{
	static const u32 kernels[] = { CONV_FORWARD, CONV_FILTER, CONV_DATA };

	d->op.known = 1;
	d->op.kernel = kernels[d->type - DESC_FORWARD];
	d->op.flops = d->filters ? 2 * d->outputs * (d->weights / d->filters) : 0;
	d->op.bytes = 4 * (d->weights + d->outputs);
}

EXPORT int cudnnBackendFinalize(struct node *d)
{
	if (!d)
		return DNN_BAD_PARAM;
	if (d->type >= DESC_FORWARD && d->type <= DESC_DATA)
		finalize_convolution(d);
	return d->type == DESC_PLAN && !d->op.known ? DNN_NOT_SUPPORTED : DNN_OK;
}

EXPORT int cudnnBackendExecute(void *h, const struct node *plan, void *pack)
{
	if (!plan || !plan->op.known || !pack)
		return DNN_BAD_PARAM;
	return dnn_run(h, plan->op.kernel, plan->op.flops, plan->op.bytes);
}
