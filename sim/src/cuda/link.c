/* SPDX-License-Identifier: Apache-2.0 */
/* The linker: makes one image, with the kernels of all inputs, from PTX, cubins and lists. */
#include "gpu.h"

#define HEAD "kernels:\n"
#define ANY "linked\n" /* image with a kernel of every name */

enum { INPUT_CUBIN, INPUT_PTX, INPUT_FATBINARY, INPUT_OBJECT, INPUT_LIBRARY, INPUT_NVVM, INPUTS };

enum { JIT_INFO_LOG = 3, JIT_INFO_SIZE, JIT_ERROR_LOG, JIT_ERROR_SIZE };

static u64 *jit_value(u32 n, const u32 *options, void **values, u32 option)
{
	for (u32 i = 0; i < n && options && values; i++)
		if (options[i] == option)
			return (u64 *)&values[i];
	return NULL;
}

/* Nothing is compiled, so the logs are empty. */
void jit_logs(u32 n, const u32 *options, void **values)
{
	for (u32 log = JIT_INFO_LOG; log <= JIT_ERROR_LOG; log += 2) {
		u64 *text = jit_value(n, options, values, log);
		u64 *size = jit_value(n, options, values, log + 1);

		if (text && *text && size && (u32)*size)
			*(char *)*text = 0;
		if (size)
			*size = 0;
	}
}

CU(cuLinkCreate_v2)(u32 n, u32 *options, void **values, void **state)
{
	struct link *l;

	ENTER;
	if (!state || (n && (!options || !values)))
		return ERR_INVALID_VALUE;
	jit_logs(n, options, values);
	lock(&g.lock);
	l = (void *)object_new(KIND_LINK);
	unlock(&g.lock);
	if (!l)
		return ERR_OUT_OF_MEMORY;
	*state = l;
	return text_add(&l->image, HEAD, sizeof(HEAD) - 1);
}

CU(cuLinkCreate)(u32 n, u32 *options, void **values, void **state)
{
	return impl_cuLinkCreate_v2(n, options, values, state);
}

/* Adds an input. A library has device functions, and no kernels. */
static int add_input(struct link *l, u32 type, const char *data, size_t n)
{
	struct text copy = { 0 }; /* PTX may lack a final 0 */
	int any = 0, err = text_add(&copy, data, n);

	if (!err && type == INPUT_PTX && !image_is_ptx(copy.p))
		err = ERR_INVALID_PTX;
	if (!err && type != INPUT_LIBRARY)
		err = image_names(copy.p, &l->image, &any);
	l->any |= any;
	text_free(&copy);
	return err;
}

CU(cuLinkAddData_v2)
(void *state, u32 type, void *data, size_t n, const char *name, u32 n_options, u32 *options,
 void **values)
{
	struct link *l = object_get(state, KIND_LINK);

	ENTER;
	(void)name, (void)n_options, (void)options, (void)values;
	if (!l)
		return ERR_INVALID_HANDLE;
	if (!data || !n || type >= INPUTS)
		return ERR_INVALID_VALUE;
	burn(g.cfg.call_ns);
	return add_input(l, type, data, n);
}

CU(cuLinkAddData)
(void *state, u32 type, void *data, size_t n, const char *name, u32 n_options, u32 *options,
 void **values)
{
	return impl_cuLinkAddData_v2(state, type, data, n, name, n_options, options, values);
}

CU(cuLinkAddFile_v2)
(void *state, u32 type, const char *path, u32 n_options, u32 *options, void **values)
{
	struct link *l = object_get(state, KIND_LINK);
	char *data;
	u64 n, room;

	ENTER;
	(void)n_options, (void)options, (void)values;
	if (!l)
		return ERR_INVALID_HANDLE;
	if (!path || type >= INPUTS)
		return ERR_INVALID_VALUE;
	err = read_image(path, &data, &n, &room);
	if (err)
		return err;
	err = add_input(l, type, data, n);
	munmap(data, room);
	return err;
}

CU(cuLinkAddFile)
(void *state, u32 type, const char *path, u32 n_options, u32 *options, void **values)
{
	return impl_cuLinkAddFile_v2(state, type, path, n_options, options, values);
}

/* The linker owns the image, which lives until the linker is destroyed. */
CU(cuLinkComplete)(void *state, void **image, size_t *n)
{
	struct link *l = object_get(state, KIND_LINK);

	ENTER;
	if (!l)
		return ERR_INVALID_HANDLE;
	if (!image)
		return ERR_INVALID_VALUE;
	burn(g.cfg.call_ns);
	if (l->any) {
		l->image.len = 0;
		err = text_add(&l->image, ANY, sizeof(ANY) - 1);
	}
	*image = l->image.p;
	if (n)
		*n = l->image.len + 1;
	return err;
}

CU(cuLinkDestroy)(void *state)
{
	struct link *l = object_get(state, KIND_LINK);

	ENTER;
	if (!l)
		return ERR_INVALID_HANDLE;
	text_free(&l->image);
	lock(&g.lock);
	object_free(&l->o);
	unlock(&g.lock);
	return OK;
}
