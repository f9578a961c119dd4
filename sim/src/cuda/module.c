/* SPDX-License-Identifier: Apache-2.0 */
/* Modules and libraries, and their functions and kernels. */
#include "gpu.h"

#define MAX_IMAGE (16 << 20)
#define GLOBAL_SIZE 65536 /* of a variable: images do not give its size */

/* "..._250us" takes 250 us of GPU time, whatever INGERO_SIM_KERNEL_NS says. */
static void time_of_name(struct function *f)
{
	const char *p = f->name, *from = NULL;
	u64 v = 0;

	for (; *p; p++)
		if (*p == '_')
			from = p + 1;
	if (!from || *from < '0' || *from > '9')
		return;
	for (; *from >= '0' && *from <= '9'; from++)
		v = v * 10 + (u64)(*from - '0');
	if (strcmp(from, "us"))
		return;
	f->kernel_ns = v * 1000;
	f->has_ns = 1;
}

static int has_name(const struct text *names, int any, const char *name)
{
	size_t n = strlen(name);

	for (const char *p = names->p; p && *p; p = strchr(p, '\n') ? strchr(p, '\n') + 1 : NULL)
		if (!strncmp(p, name, n) && (!p[n] || p[n] == '\n'))
			return 1;
	return any;
}

static int module_new(struct context *ctx, const char *image, void **out)
{
	struct text names = { 0 };
	struct module *m;
	int any;

	burn(g.cfg.call_ns);
	if (image_names(image, &names, &any))
		return ERR_OUT_OF_MEMORY;
	lock(&g.lock);
	m = (void *)object_new(KIND_MODULE);
	if (m) {
		m->ctx = ctx;
		m->names = names;
		m->any = any;
		*out = m;
	}
	unlock(&g.lock);
	if (!m)
		text_free(&names);
	return m ? OK : ERR_OUT_OF_MEMORY;
}

CU(cuModuleLoadData)(void **mod, const void *image)
{
	ENTER;
	if (!mod || !image)
		return ERR_INVALID_VALUE;
	return module_new(t->ctx, image, mod);
}

CU(cuModuleLoadDataEx)(void **mod, const void *image, u32 n, u32 *options, void **values)
{
	ENTER;
	if (!mod || !image)
		return ERR_INVALID_VALUE;
	jit_logs(n, options, values);
	return module_new(t->ctx, image, mod);
}

CU(cuModuleLoadFatBinary)(void **mod, const void *image)
{
	ENTER;
	if (!mod || !image)
		return ERR_INVALID_VALUE;
	return module_new(t->ctx, image, mod);
}

/* Reads a whole file, with a final 0, into new memory of *room bytes. */
int read_image(const char *file, char **image, u64 *len, u64 *room)
{
	int fd = open(file, O_RDONLY | O_CLOEXEC), err = OK;
	char *p;
	u64 n = 0;

	if (fd < 0)
		return ERR_FILE_NOT_FOUND;
	p = mmap(NULL, MAX_IMAGE, PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (p == MAP_FAILED)
		err = ERR_OUT_OF_MEMORY;
	while (!err) {
		long got = read(fd, p + n, MAX_IMAGE - 1 - n);

		if (got <= 0)
			break;
		n += (u64)got;
	}
	close(fd);
	if (!err && !n) {
		munmap(p, MAX_IMAGE);
		err = ERR_INVALID_IMAGE;
	}
	*image = p;
	*len = n;
	*room = MAX_IMAGE;
	return err;
}

CU(cuModuleLoad)(void **mod, const char *file)
{
	char *image;
	u64 len, room;

	ENTER;
	if (!mod || !file)
		return ERR_INVALID_VALUE;
	err = read_image(file, &image, &len, &room);
	if (err)
		return err;
	err = module_new(t->ctx, image, mod);
	munmap(image, room);
	return err;
}

/* Hash table of functions and kernels, by owner and name. */
#define BUCKETS (1 << 14)
static struct function *buckets[BUCKETS];

static struct function **bucket_of(const struct object *of, const char *name, size_t n)
{
	u64 hash = (u64)of;

	for (size_t i = 0; i < n; i++)
		hash = (hash ^ (u8)name[i]) * 0x100000001b3ull;
	return &buckets[(hash ^ hash >> 32) % BUCKETS];
}

static void function_free(struct function *f)
{
	struct function **p = bucket_of(f->of, f->name, strlen(f->name));

	while (*p != f)
		p = &(*p)->next;
	*p = f->next;
	object_free(&f->o);
}

/* Frees the functions of a module or the kernels of a library. The caller holds the lock. */
void functions_forget(const struct object *of)
{
	for (u32 kind = KIND_FUNCTION; kind; kind = kind == KIND_FUNCTION ? KIND_KERNEL : 0)
		for (u32 i = 0; i < object_count(kind); i++) {
			struct function *f = (void *)object_at(kind, i);

			if (f && f->of == of)
				function_free(f);
		}
}

static void module_free(struct module *m)
{
	functions_forget(&m->o);
	text_free(&m->names);
	object_free(&m->o);
}

/* Frees a context's modules, also those created from libraries. The caller holds the lock. */
void modules_forget(const struct context *ctx)
{
	for (u32 i = 0; i < object_count(KIND_MODULE); i++) {
		struct module *m = (void *)object_at(KIND_MODULE, i);

		if (m && m->ctx == ctx)
			module_free(m);
	}
	for (u32 i = 0; i < object_count(KIND_LIBRARY); i++) {
		struct library *l = (void *)object_at(KIND_LIBRARY, i);

		if (l)
			l->module[ctx->o.index] = NULL;
	}
}

CU(cuModuleUnload)(void *mod)
{
	ENTER;
	if (!object_get(mod, KIND_MODULE) || ((struct module *)mod)->library)
		return ERR_INVALID_HANDLE;
	lock(&g.lock);
	module_free(mod);
	unlock(&g.lock);
	return OK;
}

/* Returns the function or kernel of a name; the first call creates it. The caller holds the
 * lock. */
static struct function *function_of(u32 kind, struct object *of, struct context *ctx,
				    const char *name)
{
	size_t n = strlen(name);
	struct function *f, **bucket;

	if (n >= NAME_LEN)
		n = NAME_LEN - 1;
	bucket = bucket_of(of, name, n);
	for (f = *bucket; f; f = f->next)
		if (f->of == of && !strncmp(f->name, name, n) && !f->name[n])
			return f;
	f = (void *)object_new(kind);
	if (!f)
		return NULL;
	f->next = *bucket;
	*bucket = f;
	memcpy(f->name, name, n);
	f->of = of;
	f->ctx = ctx;
	time_of_name(f);
	return f;
}

CU(cuModuleGetFunction)(void **out, void *handle, const char *name)
{
	struct module *m = object_get(handle, KIND_MODULE);
	struct function *f;

	ENTER;
	if (!m)
		return ERR_INVALID_HANDLE;
	if (!out || !name || !*name)
		return ERR_INVALID_VALUE;
	if (!has_name(&m->names, m->any || m->library, name))
		return ERR_NOT_FOUND;
	lock(&g.lock);
	f = function_of(KIND_FUNCTION, &m->o, m->ctx, name);
	unlock(&g.lock);
	if (!f)
		return ERR_OUT_OF_MEMORY;
	*out = f;
	return OK;
}

/* Returns a variable's address. Images do not give its size: each variable has 64 KiB,
 * which do not count as allocated. */
CU(cuModuleGetGlobal_v2)(devptr *p, size_t *n, void *handle, const char *name)
{
	struct module *m = object_get(handle, KIND_MODULE);
	devptr at;

	ENTER;
	if (!m)
		return ERR_INVALID_HANDLE;
	if (!name || !*name)
		return ERR_INVALID_VALUE;
	err = mem_alloc(FAM_GLOBAL, m->ctx, NULL, GLOBAL_SIZE, &at);
	if (!err && p)
		*p = at;
	if (!err && n)
		*n = GLOBAL_SIZE;
	return err;
}

static int library_new(const char *image, void **out)
{
	struct text names = { 0 };
	struct library *l;
	int any;

	burn(g.cfg.call_ns);
	if (image_names(image, &names, &any))
		return ERR_OUT_OF_MEMORY;
	lock(&g.lock);
	l = (void *)object_new(KIND_LIBRARY);
	if (l) {
		l->names = names;
		l->any = any;
		*out = l;
	}
	unlock(&g.lock);
	if (!l)
		text_free(&names);
	return l ? OK : ERR_OUT_OF_MEMORY;
}

#define IGNORE_OPTIONS                                                                             \
	(void)jit, (void)jit_values, (void)n_jit, (void)options, (void)values, (void)n_options

CU(cuLibraryLoadData)(void **lib, const void *image, LIBRARY_OPTIONS)
{
	IGNORE_OPTIONS;
	if (unlikely(!*g.live))
		return ERR_NOT_INITIALIZED;
	return lib && image ? library_new(image, lib) : ERR_INVALID_VALUE;
}

CU(cuLibraryLoadFromFile)(void **lib, const char *file, LIBRARY_OPTIONS)
{
	char *image;
	u64 len, room;
	int err;

	IGNORE_OPTIONS;
	if (unlikely(!*g.live))
		return ERR_NOT_INITIALIZED;
	if (!lib || !file)
		return ERR_INVALID_VALUE;
	err = read_image(file, &image, &len, &room);
	if (err)
		return err;
	err = library_new(image, lib);
	munmap(image, room);
	return err;
}

CU(cuLibraryUnload)(void *handle)
{
	struct library *l = object_get(handle, KIND_LIBRARY);

	if (unlikely(!*g.live))
		return ERR_NOT_INITIALIZED;
	if (!l)
		return ERR_INVALID_HANDLE;
	lock(&g.lock);
	for (u32 i = 0; i < MAX_CONTEXTS; i++)
		if (l->module[i])
			module_free(l->module[i]);
	functions_forget(&l->o);
	text_free(&l->names);
	object_free(&l->o);
	unlock(&g.lock);
	return OK;
}

CU(cuLibraryGetKernel)(void **out, void *handle, const char *name)
{
	struct library *l = object_get(handle, KIND_LIBRARY);
	struct function *f;

	if (unlikely(!*g.live))
		return ERR_NOT_INITIALIZED;
	if (!l)
		return ERR_INVALID_HANDLE;
	if (!out || !name || !*name)
		return ERR_INVALID_VALUE;
	if (!has_name(&l->names, l->any, name))
		return ERR_NOT_FOUND;
	lock(&g.lock);
	f = function_of(KIND_KERNEL, &l->o, NULL, name);
	unlock(&g.lock);
	if (!f)
		return ERR_OUT_OF_MEMORY;
	*out = f;
	return OK;
}
