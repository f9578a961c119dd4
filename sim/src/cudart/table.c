/* SPDX-License-Identifier: Apache-2.0 */
/* Growing tables. Symbols and images never move. When the index from addresses to symbols is
 * half full, one of twice the size replaces it. Launches read it without a lock, so the old
 * one is kept. */
#include "table.h"

#define FIRST_BITS 12
#define CHUNK 65536
#define IMAGES 1024

struct index {
	u32 bits, used;
	struct symbol *slot[];
};

struct images { /* one part of the table */
	struct images *next;
	u32 used;
	struct image image[IMAGES];
};

struct lock symbols_lock;
static struct index *index;
static struct images *images;
static struct image *free_images;
static char *chunk;
static size_t chunk_left;

/* Returns zeroed memory that is never freed. If there is none, returns NULL and makes all
 * later calls fail. */
static void *pages(size_t n)
{
	static const char text[] = "libcudart (simulated): out of memory while kernels are "
				   "registered: each CUDA call fails from now on\n";
	void *p = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p != MAP_FAILED)
		return p;
	if (!rt.no_room)
		write(2, text, sizeof(text) - 1);
	rt.no_room = 1;
	rt.watched = 1;
	return NULL;
}

/* Returns a small piece of memory from pages(). */
static void *piece(size_t n)
{
	void *p;

	if (chunk_left < n) {
		chunk = pages(CHUNK);
		chunk_left = chunk ? CHUNK : 0;
	}
	if (!chunk_left)
		return NULL;
	p = chunk;
	chunk += n;
	chunk_left -= n;
	return p;
}

static struct symbol **slot_of(struct index *ix, const void *host)
{
	u32 i = (u32)((u64)host * 0x9e3779b97f4a7c15ull >> (64 - ix->bits));
	struct symbol *s;

	while ((s = __atomic_load_n(&ix->slot[i], __ATOMIC_ACQUIRE)) && s->host != host)
		i = (i + 1) & ((1u << ix->bits) - 1);
	return &ix->slot[i];
}

/* Returns the symbol of an address, or NULL. Needs no lock. */
struct symbol *symbol_of(const void *host)
{
	struct index *ix = __atomic_load_n(&index, __ATOMIC_ACQUIRE);

	return likely(ix != NULL) ? __atomic_load_n(slot_of(ix, host), __ATOMIC_ACQUIRE) : NULL;
}

/* Makes room in the index for one more symbol. */
static int index_grow(void)
{
	u32 bits = index ? index->bits + 1 : FIRST_BITS;
	struct index *more;

	if (index && index->used < 1u << (index->bits - 1))
		return 1;
	more = pages(sizeof(*more) + (sizeof(more->slot[0]) << bits));
	if (!more)
		return 0;
	more->bits = bits;
	for (u32 i = 0; index && i < 1u << index->bits; i++)
		if (index->slot[i]) {
			*slot_of(more, index->slot[i]->host) = index->slot[i];
			more->used++;
		}
	__atomic_store_n(&index, more, __ATOMIC_RELEASE);
	return 1;
}

/* Returns the symbol of an address, creating it if needed; NULL when memory runs out. */
struct symbol *symbol_take(const void *host)
{
	struct symbol *s = symbol_of(host);

	if (s)
		return s;
	if (!index_grow())
		return NULL;
	s = piece(sizeof(*s));
	if (!s)
		return NULL;
	s->host = host;
	index->used++;
	__atomic_store_n(slot_of(index, host), s, __ATOMIC_RELEASE);
	return s;
}

/* Allocates a variable's table of addresses by device; reports whether there was memory. */
int symbol_addresses(struct symbol *s)
{
	if (!s->addr)
		s->addr = piece(16 * sizeof(*s->addr));
	return s->addr != NULL;
}

/* Forgets variables' addresses: a reset of the device moves them. */
void rt_forget_variables(int dev)
{
	lock(&symbols_lock);
	for (u32 i = 0; index && i < 1u << index->bits; i++)
		if (index->slot[i] && index->slot[i]->addr)
			index->slot[i]->addr[dev] = 0;
	unlock(&symbols_lock);
}

/* Returns the registered image at p, or NULL. Needs no lock. */
struct image *image_get(const void *p)
{
	for (struct images *part = __atomic_load_n(&images, __ATOMIC_ACQUIRE); part;
	     part = part->next) {
		u64 off = (u64)p - (u64)part->image;

		if (off < sizeof(part->image) && off % sizeof(struct image) == 0)
			return ((struct image *)p)->data ? (void *)p : NULL;
	}
	return NULL;
}

/* Returns a place for an image, or NULL when memory runs out. */
struct image *image_take(void)
{
	struct image *im = free_images;

	if (im) {
		free_images = im->next_free;
		return im;
	}
	if (!images || images->used == IMAGES) {
		struct images *part = pages(sizeof(*part));

		if (!part)
			return NULL;
		part->next = images;
		__atomic_store_n(&images, part, __ATOMIC_RELEASE);
	}
	return &images->image[images->used++];
}

void image_free(struct image *im)
{
	im->library = NULL;
	im->data = NULL;
	im->next_free = free_images;
	free_images = im;
}
