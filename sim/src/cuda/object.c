/* SPDX-License-Identifier: Apache-2.0 */
/* Handles. Objects of one kind lie in one array, so any value that a caller passes can be
 * checked before it is dereferenced. The caller holds g.lock. */
#include "gpu.h"

struct arena {
	u32 size, max, used;
	char *base;
	struct object *free;
};

#define FIRST KIND_CONTEXT
static struct arena arenas[] = {
	[KIND_CONTEXT - FIRST] = { sizeof(struct context), MAX_CONTEXTS },
	[KIND_STREAM - FIRST] = { sizeof(struct stream), MAX_STREAMS },
	[KIND_EVENT - FIRST] = { sizeof(struct event), MAX_EVENTS },
	[KIND_FUNCTION - FIRST] = { sizeof(struct function), MAX_FUNCTIONS },
	[KIND_MODULE - FIRST] = { sizeof(struct module), MAX_MODULES },
	[KIND_GRAPH - FIRST] = { sizeof(struct graph), MAX_GRAPHS },
	[KIND_EXEC - FIRST] = { sizeof(struct graph), MAX_GRAPHS },
	[KIND_POOL - FIRST] = { sizeof(struct pool), MAX_GRAPHS },
	[KIND_LIBRARY - FIRST] = { sizeof(struct library), MAX_MODULES },
	[KIND_KERNEL - FIRST] = { sizeof(struct function), MAX_FUNCTIONS },
	[KIND_ARRAY - FIRST] = { sizeof(struct array), MAX_RANGES },
	[KIND_RANGE - FIRST] = { sizeof(struct range), MAX_RANGES },
	[KIND_PHYSICAL - FIRST] = { sizeof(struct physical), MAX_PHYSICAL },
	[KIND_NODE - FIRST] = { sizeof(struct node), MAX_NODES },
	[KIND_LINK - FIRST] = { sizeof(struct link), MAX_RANGES },
	[KIND_MAPPING - FIRST] = { sizeof(struct mapping), MAX_PHYSICAL },
};

/* Reports, once for each kind, that its array is full; the call fails with error 2. */
static void full(u32 kind)
{
	static const char text[] = "libcuda (simulated): too many objects of one kind\n";
	static u32 reported;

	if (!(reported & 1u << (kind - FIRST)))
		write(2, text, sizeof(text) - 1);
	reported |= 1u << (kind - FIRST);
}

/* Returns a zeroed object, or NULL when there is no room. */
struct object *object_new(u32 kind)
{
	struct arena *a = &arenas[kind - FIRST];
	struct object *o = a->free;
	u32 index;

	if (!a->base) {
		char *p = mmap(NULL, (size_t)a->size * a->max, PROT_READ | PROT_WRITE,
			       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

		if (p == MAP_FAILED)
			return NULL;
		__atomic_store_n(&a->base, p, __ATOMIC_RELEASE);
	}
	if (o) {
		a->free = o->next_free;
		index = o->index;
	} else if (a->used < a->max) {
		index = a->used;
		o = (struct object *)(a->base + (size_t)a->size * index);
		a->used++;
	} else {
		full(kind);
		return NULL;
	}
	memset(o, 0, a->size);
	o->index = index;
	o->kind = kind;
	return o;
}

void object_free(struct object *o)
{
	struct arena *a = &arenas[o->kind - FIRST];

	o->kind = 0;
	o->next_free = a->free;
	a->free = o;
}

/* Returns the object behind a handle, or NULL if it is not of that kind. Needs no lock. */
void *object_get(const void *handle, u32 kind)
{
	const struct arena *a = &arenas[kind - FIRST];
	u64 off = (u64)handle - (u64)a->base;
	const struct object *o = handle;

	if (!a->base || off >= (u64)a->size * a->used || off % a->size || o->kind != kind)
		return NULL;
	return (void *)handle;
}

/* Returns the index-th object of a kind, or NULL if it is dead or was never created. */
struct object *object_at(u32 kind, u32 index)
{
	struct arena *a = &arenas[kind - FIRST];
	struct object *o;

	if (index >= a->used)
		return NULL;
	o = (struct object *)(a->base + (size_t)a->size * index);
	return o->kind == kind ? o : NULL;
}

/* Returns how many objects of a kind were ever created: the bound of a loop by object_at(). */
u32 object_count(u32 kind)
{
	return arenas[kind - FIRST].used;
}
