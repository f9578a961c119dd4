/* SPDX-License-Identifier: Apache-2.0 */
/* The tables of what a program has registered. */
#ifndef SIM_TABLE_H
#define SIM_TABLE_H

#include "rt.h"

/* __cudaRegisterFatBinary gives the address of `library` of one of these. */
struct image {
	const void *data; /* NULL: free */
	void *library; /* loaded at first use */
	struct symbol *symbols; /* registered with it */
	struct image *next_free;
};

/* A kernel or a variable, by the host's address for it; also a kernel by its own handle. */
struct symbol {
	const void *host;
	const char *name; /* NULL: its image is gone, or the key is a kernel's handle */
	struct image *image;
	struct symbol *next; /* of the same image */
	void *kernel;
	u64 size; /* of a variable; 0: a kernel */
	devptr *addr; /* of a variable, by device */
};

/* Held by the caller of all but symbol_of() and image_get(). */
extern struct lock symbols_lock;

struct symbol *symbol_of(const void *host);
struct symbol *symbol_take(const void *host);
int symbol_addresses(struct symbol *s);
struct image *image_get(const void *p);
struct image *image_take(void);
void image_free(struct image *im);

#endif
