/* SPDX-License-Identifier: Apache-2.0 */
/* Memory. Device, pinned and managed memory each have a region of addresses, so an address
 * identifies the kind. Device memory has addresses and sizes but no contents; the host can
 * access the other two. */
#include "gpu.h"

#define CLASSES 40 /* powers of two from 512 bytes */
#define TABLE_BITS 20
#define ON_HOST (FREES(FAM_PINNED) | FREES(FAM_REGISTERED) | FREES(FAM_GLOBAL))

struct block {
	u64 addr; /* 0: never used */
	u64 size; /* requested size; 0: free */
	u8 family : 4, flags : 4, dev, class,
		ctx; /* flags of cuMemHostAlloc; index of the context */
	u32 next; /* next free block of the class: index + 1 */
	struct pool *pool;
};

struct region {
	u64 base, len, brk;
	u32 free[CLASSES];
};

static struct region regions[4]; /* by MEM_* */
static struct block *table; /* hash table by address, open addressing, never shrinks */
static u32 blocks;

static struct {
	u64 from, to;
	u32 dev;
} registered[MAX_REGISTERED];
static u32 n_registered;

static void reserve(struct region *r, int prot, u64 len)
{
	for (; len >= 1 << 20; len >>= 1) {
		void *p = mmap(NULL, len, prot, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

		if (p != MAP_FAILED) {
			r->base = r->brk = (u64)p;
			r->len = len;
			return;
		}
	}
}

void mem_init(void)
{
	u64 all = g.cfg.mem * g.cfg.devices;
	void *p;

	if (all < 1 << 20)
		all = 1 << 20;
	reserve(&regions[MEM_DEVICE], PROT_NONE, 4 * all);
	reserve(&regions[MEM_PINNED], PROT_READ | PROT_WRITE, 32ull << 30);
	reserve(&regions[MEM_MANAGED], PROT_READ | PROT_WRITE, 32ull << 30);
	p = mmap(NULL, sizeof(*table) << TABLE_BITS, PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	table = p == MAP_FAILED ? NULL : p;
}

static struct region *region_of(u32 family)
{
	return &regions[family == FAM_PINNED    ? MEM_PINNED
			: family == FAM_MANAGED ? MEM_MANAGED
						: MEM_DEVICE];
}

static u32 slot_of(u64 addr)
{
	u32 i = (u32)((addr >> 9) * 0x9e3779b97f4a7c15ull >> (64 - TABLE_BITS));

	while (table[i].addr && table[i].addr != addr)
		i = (i + 1) & ((1u << TABLE_BITS) - 1);
	return i;
}

int mem_kind(u64 p)
{
	for (int k = MEM_DEVICE; k <= MEM_MANAGED; k++)
		if (p - regions[k].base < regions[k].len)
			return k;
	for (u32 i = 0; i < n_registered; i++)
		if (p >= registered[i].from && p < registered[i].to)
			return MEM_PINNED;
	return range_has(p) ? MEM_DEVICE : MEM_PAGEABLE;
}

static void count_up(struct sim_memory *m, u64 size)
{
	m->allocs++;
	m->live++;
	m->live_bytes += size;
	if (m->live_bytes > m->peak_bytes)
		m->peak_bytes = m->live_bytes;
}

static void count_down(struct sim_memory *m, u64 size)
{
	m->frees++;
	m->live--;
	m->live_bytes -= size;
}

/* Counts an allocation if the device has room for it. The caller holds the lock. */
int mem_count(u32 family, u32 dev, u64 size)
{
	struct device *d = &g.dev[dev];

	if (family == FAM_GLOBAL)
		return OK;
	if (!(ON_HOST & FREES(family))) {
		if (size > g.cfg.mem - d->all.live_bytes)
			return ERR_OUT_OF_MEMORY;
		count_up(&d->all, size);
	}
	count_up(&d->family[family], size);
	return OK;
}

void mem_uncount(u32 family, u32 dev, u64 size)
{
	if (family == FAM_GLOBAL)
		return;
	if (!(ON_HOST & FREES(family)))
		count_down(&g.dev[dev].all, size);
	count_down(&g.dev[dev].family[family], size);
}

static struct block *block_new(struct region *r, u32 class)
{
	u64 room = 512ull << class;
	struct block *b;

	if (r->free[class]) {
		b = &table[r->free[class] - 1];
		r->free[class] = b->next;
		return b;
	}
	if (room > r->base + r->len - r->brk || blocks >= 1u << (TABLE_BITS - 1))
		return NULL;
	b = &table[slot_of(r->brk)];
	b->addr = r->brk;
	b->class = (u8) class;
	r->brk += room;
	blocks++;
	return b;
}

static void put_back(struct block *b)
{
	struct region *r = region_of(b->family);

	b->size = 0;
	b->next = r->free[b->class];
	r->free[b->class] = (u32)(b - table) + 1;
}

/* pool: for stream-ordered memory, else NULL. A failure changes nothing. */
int mem_alloc(u32 family, struct context *ctx, struct pool *pool, u64 size, u64 *out)
{
	u32 class = 0, dev = pool ? pool->dev : ctx->device;
	int err = ERR_OUT_OF_MEMORY;
	struct block *b = NULL;

	while (class < CLASSES && 512ull << class < size)
		class ++;
	lock(&g.lock);
	if (table && class < CLASSES)
		b = block_new(region_of(family), class);
	if (b) {
		b->family = family & 15;
		err = mem_count(family, dev, size);
		if (err)
			put_back(b);
	}
	if (!err) {
		b->size = size;
		b->flags = 0;
		b->dev = (u8)dev;
		b->ctx = (u8)ctx->o.index;
		b->pool = pool;
		if (pool && (pool->used += size) > pool->high)
			pool->high = pool->used;
		*out = b->addr;
	}
	unlock(&g.lock);
	return err;
}

static void release(struct block *b)
{
	if (region_of(b->family) != &regions[MEM_DEVICE] && b->size >= 65536)
		madvise((void *)b->addr, 512ull << b->class, MADV_DONTNEED);
	mem_uncount(b->family, b->dev, b->size);
	if (b->pool && !(b->pool->used -= b->size) && b->pool->o.kind == KIND_DEAD_POOL) {
		b->pool->o.kind = KIND_POOL;
		object_free(&b->pool->o);
	}
	put_back(b);
}

/* families: a bit for each FAM_* that this call may free. */
int mem_free(u32 families, u64 p)
{
	int err = ERR_INVALID_VALUE;
	struct block *b;

	lock(&g.lock);
	b = table ? &table[slot_of(p)] : NULL;
	if (b && p && b->addr == p && b->size && families & FREES(b->family)) {
		release(b);
		err = OK;
	}
	unlock(&g.lock);
	return err;
}

/* Frees all memory of a context. The caller holds the lock. */
void mem_forget(const struct context *ctx)
{
	u32 left = blocks;

	for (struct block *b = table; left; b++) {
		left -= b->addr != 0;
		if (b->size && b->ctx == ctx->o.index)
			release(b);
	}
}

/* Returns the size of the block that begins at p, or 0. */
u64 mem_size(u64 p)
{
	u64 n = 0;

	lock(&g.lock);
	if (table && p && table[slot_of(p)].addr == p)
		n = table[slot_of(p)].size;
	unlock(&g.lock);
	return n;
}

/* Stores the flags with which pinned memory was allocated. */
void mem_set_flags(u64 p, u32 flags)
{
	lock(&g.lock);
	table[slot_of(p)].flags = flags & 15;
	unlock(&g.lock);
}

int mem_host_flags(u64 p, u32 *flags)
{
	int err = ERR_INVALID_VALUE;

	lock(&g.lock);
	if (table && p && table[slot_of(p)].addr == p && table[slot_of(p)].size &&
	    table[slot_of(p)].family == FAM_PINNED) {
		*flags = table[slot_of(p)].flags;
		err = OK;
	}
	unlock(&g.lock);
	return err;
}

/* Returns the device of the block that begins at p, or -1. */
int mem_device(u64 p)
{
	int dev = -1;

	lock(&g.lock);
	if (table && p && table[slot_of(p)].addr == p && table[slot_of(p)].size)
		dev = table[slot_of(p)].dev;
	unlock(&g.lock);
	return dev;
}

/* Reports whether n bytes at p may be copied. Only a block's start reveals its end. */
int mem_check(u64 p, u64 n)
{
	u64 size;

	if (!p)
		return n ? ERR_INVALID_VALUE : OK;
	if (mem_kind(p) != MEM_DEVICE)
		return OK;
	size = mem_size(p);
	return size && n > size ? ERR_INVALID_VALUE : OK;
}

CU(cuMemHostRegister_v2)(void *p, size_t n, u32 flags)
{
	ENTER;
	(void)flags;
	if (!p || !n)
		return ERR_INVALID_VALUE;
	if (mem_kind((u64)p) == MEM_PINNED)
		return ERR_ALREADY_REGISTERED;
	burn(g.cfg.call_ns);
	lock(&g.lock);
	if (n_registered < MAX_REGISTERED) {
		registered[n_registered].from = (u64)p;
		registered[n_registered].to = (u64)p + n;
		registered[n_registered++].dev = t->ctx->device;
		mem_count(FAM_REGISTERED, t->ctx->device, n);
	} else {
		err = ERR_OUT_OF_MEMORY;
	}
	unlock(&g.lock);
	return err;
}

CU(cuMemHostRegister)(void *p, size_t n, u32 flags)
{
	return impl_cuMemHostRegister_v2(p, n, flags);
}

CU(cuMemHostUnregister)(void *p)
{
	ENTER;
	err = ERR_NOT_REGISTERED;
	lock(&g.lock);
	for (u32 i = 0; i < n_registered; i++)
		if (registered[i].from == (u64)p) {
			mem_uncount(FAM_REGISTERED, registered[i].dev,
				    registered[i].to - registered[i].from);
			registered[i] = registered[--n_registered];
			err = OK;
			break;
		}
	unlock(&g.lock);
	return err;
}

/* Not in the real library: the driver's own count of a device's memory. family is a FAM_*,
 * or -1 for all families that use device memory. */
CU(simMemory)(int dev, int family, struct sim_memory *out)
{
	if (unlikely(!*g.live))
		return ERR_NOT_INITIALIZED;
	if (dev < 0 || dev >= g.device_count)
		return ERR_INVALID_DEVICE;
	if (!out || family < -1 || family >= FAMILIES)
		return ERR_INVALID_VALUE;
	lock(&g.lock);
	*out = family < 0 ? g.dev[dev].all : g.dev[dev].family[family];
	unlock(&g.lock);
	return OK;
}
