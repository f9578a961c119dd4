/* SPDX-License-Identifier: Apache-2.0 */
/* Objects and images: which kernels an image has, and how images are linked. */
#ifndef SIM_IMAGE_H
#define SIM_IMAGE_H

#include "../base.h"

/* Every handle points to an object that begins so; dead ones have kind 0. */
struct object {
	u32 kind;
	u32 index;
	struct object *next_free;
};

/* Text that grows; a 0 follows it. */
struct text {
	char *p;
	u64 len, cap;
};

/* What the linker makes an image of. */
struct link {
	struct object o;
	struct text image;
	int any; /* nobody knows the kernels of one input */
};

int text_add(struct text *t, const char *s, u64 n);
void text_free(struct text *t);
int image_names(const char *image, struct text *out, int *any);
int image_is_ptx(const char *image);
int read_image(const char *file, char **image, u64 *len, u64 *room);
void jit_logs(u32 n, const u32 *options, void **values);

#endif
