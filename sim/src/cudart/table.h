/* SPDX-License-Identifier: Apache-2.0 */
/* Tables of the images and symbols that a program has registered. */
#ifndef SIM_TABLE_H
#define SIM_TABLE_H

#include "rt.h"

/* __cudaRegisterFatBinary returns the address of `library` of one of these. */
struct image {
	const void *data; /* NULL: free */
	void *library; /* loaded on first use */
	struct symbol *symbols; /* symbols registered with it */
	struct image *next_free;
};

/* A kernel or variable, keyed by its host address; a kernel is also keyed by its handle. */
struct symbol {
	const void *host;
	const char *name; /* NULL: the image is gone, or the key is a kernel's handle */
	struct image *image;
	struct symbol *next; /* next symbol of the image */
	void *kernel;
	u64 size; /* size of a variable; 0: a kernel */
	devptr *addr; /* addresses of a variable, by device */
};

/* Callers hold it for all functions but symbol_of() and image_get(). */
extern struct lock symbols_lock;

struct symbol *symbol_of(const void *host);
struct symbol *symbol_take(const void *host);
int symbol_addresses(struct symbol *s);
struct image *image_get(const void *p);
struct image *image_take(void);
void image_free(struct image *im);

#endif
