/* SPDX-License-Identifier: Apache-2.0 */
/* Memory. Device, pinned and managed memory each have a region of addresses, so
 * that the place of a pointer tells its kind. Device memory has addresses and
 * sizes but no contents; the host can touch the other two. */
#include "gpu.h"

#define CLASSES 40 /* powers of two from 512 bytes */
#define TABLE_BITS 20

struct block {
	u64 addr; /* 0: never used */
	u64 size; /* as asked for; 0: free */
	u32 kind, dev;
	u32 class, next; /* next free block of the class, by index + 1 */
};

struct region {
	u64 base, len, brk;
	u32 free[CLASSES];
};

static struct region regions[4]; /* by MEM_* */
static struct block *table; /* hash by address, open addressing, never shrinks */
static u32 blocks;

static struct {
	u64 from, to;
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
	return MEM_PAGEABLE;
}

static struct block *block_new(u32 kind, u32 class)
{
	struct region *r = &regions[kind];
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
	b->class = class;
	r->brk += room;
	blocks++;
	return b;
}

/* Device and managed memory count against the device's limit. */
int mem_alloc(u32 kind, u32 dev, u64 size, u64 *out)
{
	struct device *d = &g.dev[dev];
	struct block *b = NULL;
	u32 class = 0;

	while (class < CLASSES && 512ull << class < size)
		class ++;
	lock(&g.lock);
	if (table && class < CLASSES && (kind == MEM_PINNED || size <= g.cfg.mem - d->used))
		b = block_new(kind, class);
	if (b) {
		b->size = size;
		b->kind = kind;
		b->dev = dev;
		b->next = 0;
		if (kind != MEM_PINNED)
			d->used += size;
		*out = b->addr;
	}
	unlock(&g.lock);
	return b ? OK : ERR_OUT_OF_MEMORY;
}

static void release(struct block *b)
{
	struct region *r = &regions[b->kind];

	if (b->kind != MEM_DEVICE && b->size >= 65536)
		madvise((void *)b->addr, 512ull << b->class, MADV_DONTNEED);
	if (b->kind != MEM_PINNED)
		g.dev[b->dev].used -= b->size;
	b->size = 0;
	b->next = r->free[b->class];
	r->free[b->class] = (u32)(b - table) + 1;
}

/* kinds: a bit for each MEM_* that may be freed so. */
int mem_free(u32 kinds, u64 p)
{
	int err = ERR_INVALID_VALUE;
	struct block *b;

	lock(&g.lock);
	b = table ? &table[slot_of(p)] : NULL;
	if (b && b->addr == p && b->size && kinds & 1u << b->kind) {
		release(b);
		err = OK;
	}
	unlock(&g.lock);
	return err;
}

/* Frees all memory of a device. The caller holds the lock. */
void mem_forget(u32 dev)
{
	u32 left = blocks;

	for (struct block *b = table; left; b++) {
		left -= b->addr != 0;
		if (b->size && b->dev == dev)
			release(b);
	}
}

/* The size of the block that begins at p, 0 for none. */
u64 mem_size(u64 p)
{
	u64 n = 0;

	lock(&g.lock);
	if (table && table[slot_of(p)].addr == p)
		n = table[slot_of(p)].size;
	unlock(&g.lock);
	return n;
}

/* Whether n bytes at p may be copied, as far as can be told: a block's start tells its end. */
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
		n_registered++;
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
			registered[i] = registered[--n_registered];
			err = OK;
			break;
		}
	unlock(&g.lock);
	return err;
}
