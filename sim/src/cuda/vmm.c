/* SPDX-License-Identifier: Apache-2.0 */
/* Virtual memory management: reserve, create and map; and memory of other processes, which
 * consists of addresses only. */
#include "gpu.h"

#define GRANULARITY (2ull << 20)

/* Reports whether an address lies in a reserved or opened range. */
int range_has(u64 p)
{
	for (u32 i = 0; i < object_count(KIND_RANGE); i++) {
		const struct range *r = (void *)object_at(KIND_RANGE, i);

		if (r && p - r->from < r->len)
			return 1;
	}
	return 0;
}

/* Reserves addresses from Linux, so nothing else gets them. The caller holds the lock. */
static struct range *range_new(u64 len, u64 align)
{
	struct range *r = (void *)object_new(KIND_RANGE);
	void *p;

	if (!r)
		return NULL;
	p = mmap(NULL, len + align, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (p == MAP_FAILED) {
		object_free(&r->o);
		return NULL;
	}
	r->base = (u64)p;
	r->base_len = len + align;
	r->from = (r->base + align - 1) & ~(align - 1);
	r->len = len;
	return r;
}

static void range_free(struct range *r)
{
	munmap((void *)r->base, r->base_len);
	object_free(&r->o);
}

static struct range *range_at(u64 p)
{
	for (u32 i = 0; i < object_count(KIND_RANGE); i++) {
		struct range *r = (void *)object_at(KIND_RANGE, i);

		if (r && r->from == p)
			return r;
	}
	return NULL;
}

CU(cuMemAddressReserve)(devptr *p, size_t n, size_t align, devptr wanted, u64 flags)
{
	struct range *r;

	ENTER;
	(void)wanted; /* a hint */
	if (!p || !n || n % GRANULARITY || flags || align & (align - 1))
		return ERR_INVALID_VALUE;
	burn(g.cfg.call_ns);
	lock(&g.lock);
	r = range_new(n, align > GRANULARITY ? align : GRANULARITY);
	if (r)
		*p = r->from;
	unlock(&g.lock);
	return r ? OK : ERR_OUT_OF_MEMORY;
}

/* Returns how many bytes of a range are mapped; 0 if a mapping crosses its end. The caller
 * holds the lock. */
static u64 mapped(u64 from, u64 len)
{
	u64 bytes = 0;

	for (u32 i = 0; i < object_count(KIND_MAPPING); i++) {
		struct mapping *m = (void *)object_at(KIND_MAPPING, i);

		if (!m || m->from + m->len <= from || m->from >= from + len)
			continue;
		if (m->from < from || m->from + m->len > from + len)
			return 0;
		bytes += m->len;
	}
	return bytes;
}

static int has_mapping(u64 from, u64 len)
{
	for (u32 i = 0; i < object_count(KIND_MAPPING); i++) {
		struct mapping *m = (void *)object_at(KIND_MAPPING, i);

		if (m && m->from < from + len && from < m->from + m->len)
			return 1;
	}
	return 0;
}

CU(cuMemAddressFree)(devptr p, size_t n)
{
	struct range *r;

	ENTER;
	lock(&g.lock);
	r = range_at(p);
	if (!r || r->len != n || r->ipc || has_mapping(p, n))
		err = ERR_INVALID_VALUE;
	else
		range_free(r);
	unlock(&g.lock);
	return err;
}

struct allocation_prop { /* CUmemAllocationProp */
	int type, handle_types;
	struct location location;
	void *meta;
	u8 flags[8];
};

static int bad_prop(const struct allocation_prop *p)
{
	return !p || p->type != 1 || p->location.type != 1 || p->location.id < 0 ||
	       p->location.id >= g.device_count;
}

CU(cuMemGetAllocationGranularity)(size_t *n, const struct allocation_prop *prop, int option)
{
	if (unlikely(!*g.live))
		return ERR_NOT_INITIALIZED;
	if (!n || bad_prop(prop) || option < 0 || option > 1)
		return ERR_INVALID_VALUE;
	*n = GRANULARITY;
	return OK;
}

CU(cuMemCreate)(void **handle, size_t n, const struct allocation_prop *prop, u64 flags)
{
	struct physical *ph;

	ENTER;
	if (!handle || !n || n % GRANULARITY || bad_prop(prop) || flags)
		return ERR_INVALID_VALUE;
	burn(g.cfg.call_ns);
	lock(&g.lock);
	ph = (void *)object_new(KIND_PHYSICAL);
	if (ph && mem_count(FAM_PHYSICAL, (u32)prop->location.id, n)) {
		object_free(&ph->o);
		ph = NULL;
	}
	if (ph) {
		ph->size = n;
		ph->dev = (u32)prop->location.id;
		ph->handles = 1;
		*handle = ph;
	}
	unlock(&g.lock);
	return ph ? OK : ERR_OUT_OF_MEMORY;
}

static void drop(struct physical *ph)
{
	if (ph->handles || ph->maps)
		return;
	mem_uncount(FAM_PHYSICAL, ph->dev, ph->size);
	object_free(&ph->o);
}

CU(cuMemRelease)(void *handle)
{
	struct physical *ph;

	ENTER;
	lock(&g.lock);
	ph = object_get(handle, KIND_PHYSICAL);
	if (!ph || !ph->handles) {
		err = ERR_INVALID_VALUE;
	} else {
		ph->handles--;
		drop(ph);
	}
	unlock(&g.lock);
	return err;
}

CU(cuMemMap)(devptr p, size_t n, size_t offset, void *handle, u64 flags)
{
	struct physical *ph = object_get(handle, KIND_PHYSICAL);
	struct mapping *m = NULL;

	ENTER;
	if (!ph || !ph->handles || !n || n % GRANULARITY || p % GRANULARITY || offset || flags ||
	    n > ph->size || !range_has(p) || !range_has(p + n - 1))
		return ERR_INVALID_VALUE;
	burn(g.cfg.call_ns);
	lock(&g.lock);
	if (has_mapping(p, n)) {
		err = ERR_INVALID_VALUE;
	} else {
		m = (void *)object_new(KIND_MAPPING);
		err = m ? OK : ERR_OUT_OF_MEMORY;
	}
	if (m) {
		m->from = p;
		m->len = n;
		m->of = ph;
		ph->maps++;
	}
	unlock(&g.lock);
	return err;
}

static void unmap(struct mapping *m, u32 unused)
{
	struct physical *ph = m->of;

	(void)unused;
	ph->maps--;
	object_free(&m->o);
	drop(ph);
}

static void set_access(struct mapping *m, u32 access)
{
	m->access = access;
}

/* Accepts whole mappings only, contiguous and without gaps. */
static int on_mappings(devptr p, size_t n, void (*fn)(struct mapping *, u32), u32 arg)
{
	int err = OK;

	burn(g.cfg.call_ns);
	lock(&g.lock);
	if (!n || mapped(p, n) != n)
		err = ERR_INVALID_VALUE;
	for (u32 i = 0; !err && i < object_count(KIND_MAPPING); i++) {
		struct mapping *m = (void *)object_at(KIND_MAPPING, i);

		if (m && m->from - p < n)
			fn(m, arg);
	}
	unlock(&g.lock);
	return err;
}

CU(cuMemUnmap)(devptr p, size_t n)
{
	ENTER;
	return on_mappings(p, n, unmap, 0);
}

struct access { /* CUmemAccessDesc */
	struct location location;
	u32 flags;
};

CU(cuMemSetAccess)(devptr p, size_t n, const struct access *a, size_t count)
{
	ENTER;
	if (!a || !count || a->flags == 2 || a->flags > 3)
		return ERR_INVALID_VALUE;
	return on_mappings(p, n, set_access, a->flags);
}

static struct mapping *mapping_of(u64 p)
{
	for (u32 i = 0; i < object_count(KIND_MAPPING); i++) {
		struct mapping *m = (void *)object_at(KIND_MAPPING, i);

		if (m && p - m->from < m->len)
			return m;
	}
	return NULL;
}

CU(cuMemGetAccess)(u64 *flags, const struct location *at, devptr p)
{
	const struct mapping *m;

	ENTER;
	lock(&g.lock);
	m = mapping_of(p);
	if (m && flags && at)
		*flags = m->access;
	else
		err = ERR_INVALID_VALUE;
	unlock(&g.lock);
	return err;
}

CU(cuMemRetainAllocationHandle)(void **handle, void *p)
{
	struct mapping *m;

	ENTER;
	lock(&g.lock);
	m = mapping_of((u64)p);
	if (m && handle) {
		m->of->handles++;
		*handle = m->of;
	} else {
		err = ERR_INVALID_VALUE;
	}
	unlock(&g.lock);
	return err;
}

#define IPC_MAGIC 0x63706931736d6973ull

CU(cuIpcGetMemHandle)(struct ipc_handle *h, devptr p)
{
	u64 n = mem_size(p);

	ENTER;
	if (!h || !n || mem_kind(p) != MEM_DEVICE)
		return ERR_INVALID_VALUE;
	memset(h, 0, sizeof(*h));
	h->magic = IPC_MAGIC;
	h->addr = p;
	h->size = n;
	h->pid = getpid();
	return OK;
}

CU(cuIpcOpenMemHandle_v2)(devptr *p, struct ipc_handle h, u32 flags)
{
	struct range *r;

	ENTER;
	if (!p || flags > 1 || h.magic != IPC_MAGIC || !h.size)
		return ERR_INVALID_VALUE;
	if (h.pid == getpid())
		return ERR_INVALID_CONTEXT;
	lock(&g.lock);
	r = range_new((h.size + GRANULARITY - 1) & ~(GRANULARITY - 1), GRANULARITY);
	if (r) {
		r->ipc = h.addr;
		*p = r->from;
	}
	unlock(&g.lock);
	return r ? OK : ERR_OUT_OF_MEMORY;
}

CU(cuIpcOpenMemHandle)(devptr *p, struct ipc_handle h, u32 flags)
{
	return impl_cuIpcOpenMemHandle_v2(p, h, flags);
}

CU(cuIpcCloseMemHandle)(devptr p)
{
	struct range *r;

	ENTER;
	lock(&g.lock);
	r = range_at(p);
	if (r && r->ipc)
		range_free(r);
	else
		err = ERR_INVALID_VALUE;
	unlock(&g.lock);
	return err;
}
