/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the kernels of an image. It understands a list (the line "kernels:", then one a
 * line), PTX and cubins. Any other image (fat binaries are compressed) has a kernel of every
 * name. */
#include "gpu.h"

#define IMAGE "kernels:\n"
#define ELF_MAGIC "\177ELF"
#define STT_FUNC 2
#define STO_CUDA_ENTRY 0x10
#define SHT_SYMTAB 2

struct elf_header { /* Elf64_Ehdr */
	u8 ident[16];
	uint16_t type, machine;
	u32 version;
	u64 entry, phoff, shoff;
	u32 flags;
	uint16_t ehsize, phentsize, phnum, shentsize, shnum, shstrndx;
};

struct elf_section { /* Elf64_Shdr */
	u32 name, type;
	u64 flags, addr, offset, size;
	u32 link, info;
	u64 align, entsize;
};

struct elf_symbol { /* Elf64_Sym */
	u32 name;
	u8 info, other;
	uint16_t shndx;
	u64 value, size;
};

/* Appends n bytes and a 0, which the next append overwrites. */
int text_add(struct text *t, const char *s, u64 n)
{
	if (t->len + n + 1 > t->cap) {
		u64 cap = 2 * (t->len + n) + 4096;
		char *p =
			mmap(NULL, cap, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		if (p == MAP_FAILED)
			return ERR_OUT_OF_MEMORY;
		if (t->p) {
			memcpy(p, t->p, t->len);
			munmap(t->p, t->cap);
		}
		t->p = p;
		t->cap = cap;
	}
	memcpy(t->p + t->len, s, n);
	t->len += n;
	t->p[t->len] = 0;
	return OK;
}

void text_free(struct text *t)
{
	if (t->p)
		munmap(t->p, t->cap);
	memset(t, 0, sizeof(*t));
}

static int add_line(struct text *t, const char *s, u64 n)
{
	int err = text_add(t, s, n);

	return err ? err : text_add(t, "\n", 1);
}

/* Returns the end of a comment or string that begins at s, or s. */
static const char *skip_quiet(const char *s)
{
	if (s[0] == '/' && s[1] == '/') {
		while (*s && *s != '\n')
			s++;
	} else if (s[0] == '/' && s[1] == '*') {
		for (s += 2; *s && (s[0] != '*' || s[1] != '/'); s++)
			;
		s += *s ? 2 : 0;
	} else if (*s == '"') {
		for (s++; *s && *s != '"'; s++)
			;
		s += *s != 0;
	}
	return s;
}

static const char *skip_space(const char *s)
{
	for (;;) {
		const char *from = s;

		while (*s == ' ' || *s == '\t' || *s == '\n' || *s == '\r')
			s++;
		if (*s == '/')
			s = skip_quiet(s);
		if (s == from)
			return s;
	}
}

static int in_name(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	       c == '_' || c == '$' || c == '%';
}

static int starts(const char *s, const char *with)
{
	return !strncmp(s, with, strlen(with));
}

/* PTX begins with its version, after any comments. */
int image_is_ptx(const char *image)
{
	return starts(skip_space(image), ".version");
}

/* The .entry directives of PTX name its kernels. */
static int names_of_ptx(const char *s, struct text *out)
{
	int err = OK;

	while (*s && !err) {
		const char *after = skip_quiet(s);
		u64 n = 0;

		if (after != s) {
			s = after;
			continue;
		}
		if (!starts(s, ".entry") || in_name(s[6])) {
			s++;
			continue;
		}
		s = skip_space(s + 6);
		while (in_name(s[n]))
			n++;
		if (n)
			err = add_line(out, s, n);
		s += n;
	}
	return err;
}

/* A cubin's kernels are the functions that its symbol table marks as entries. */
static int names_of_cubin(const char *image, struct text *out)
{
	const struct elf_header *h = (const void *)image;
	const struct elf_section *sections = (const void *)(image + h->shoff);
	int err = OK;

	for (u32 i = 0; i < h->shnum && !err; i++) {
		const struct elf_section *s = &sections[i];
		const struct elf_symbol *sym = (const void *)(image + s->offset);

		if (s->type != SHT_SYMTAB || s->link >= h->shnum)
			continue;
		for (u64 k = 0; k < s->size / sizeof(*sym) && !err; k++) {
			const char *name = image + sections[s->link].offset + sym[k].name;

			if ((sym[k].info & 15) == STT_FUNC && sym[k].other & STO_CUDA_ENTRY)
				err = add_line(out, name, strlen(name));
		}
	}
	return err;
}

/* Appends the kernels of an image, one a line. Sets *any if it has a kernel of every name. */
int image_names(const char *image, struct text *out, int *any)
{
	const struct elf_header *h = (const void *)image;

	*any = 0;
	if (starts(image, IMAGE))
		return text_add(out, image + sizeof(IMAGE) - 1,
				strlen(image) - (sizeof(IMAGE) - 1));
	if (image_is_ptx(image))
		return names_of_ptx(image, out);
	if (starts(image, ELF_MAGIC) && h->shentsize == sizeof(struct elf_section))
		return names_of_cubin(image, out);
	*any = 1;
	return OK;
}
