/* SPDX-License-Identifier: Apache-2.0 */
/* Objects and images: the kernels of an image, and how images are linked. */
#ifndef SIM_IMAGE_H
#define SIM_IMAGE_H

#include "../base.h"

/* Every handle points to an object that begins with this; a dead one has kind 0. */
struct object {
	u32 kind;
	u32 index;
	struct object *next_free;
};

/* A growable, 0-terminated string. */
struct text {
	char *p;
	u64 len, cap;
};

/* The state of a linker. */
struct link {
	struct object o;
	struct text image;
	int any; /* an input's kernels are unknown */
};

int text_add(struct text *t, const char *s, u64 n);
void text_free(struct text *t);
int image_names(const char *image, struct text *out, int *any);
int image_is_ptx(const char *image);
int read_image(const char *file, char **image, u64 *len, u64 *room);
void jit_logs(u32 n, const u32 *options, void **values);

#endif
