// A C program of the shapes that matter: functions that are put into others, over several
// levels, static ones with one name, parts that are seldom run, calls through tables.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct shape {
	int (*area)(const struct shape *s);
	int w, h;
};

volatile int sink;

static inline __attribute__((always_inline)) int scale(int x)
{
	sink = x;
	return x * 3 + sink;
}

static inline __attribute__((always_inline)) int twice(int x)
{
	int a = scale(x);
	return a + scale(a + 1);
}

static __attribute__((noinline)) int square(const struct shape *s)
{
	return twice(s->w) * s->w;
}

static __attribute__((noinline)) int oblong(const struct shape *s)
{
	if (__builtin_expect(s->h < 0, 0)) {
		fprintf(stderr, "%d high\n", s->h);
		abort();
	}
	return twice(s->w) * scale(s->h);
}

__attribute__((noinline, cold)) int refuse(int n)
{
	fprintf(stderr, "%d shapes\n", n);
	return -1;
}

__attribute__((noinline)) int sum(const struct shape *all, int n)
{
	int total = 0;
	if (n > 1000)
		return refuse(n);
	for (int i = 0; i < n; i++)
		total += twice(all[i].area(&all[i]));
	return total;
}

static int by_width(const void *a, const void *b)
{
	const struct shape *l = a, *r = b;
	return scale(l->w) - scale(r->w);
}

__attribute__((noinline)) int name(const char *s)
{
	switch (strlen(s)) {
	case 0:
		return sink;
	case 1:
		return scale(s[0]);
	case 2:
		return twice(s[1]);
	default:
		return twice(s[2]) + scale(s[0]);
	}
}

int not_called(int x)
{
	return twice(twice(x));
}

int main(int argc, char **argv)
{
	struct shape all[10];
	for (int i = 0; i < 10; i++)
		all[i] = (struct shape){ i % 2 ? square : oblong, 10 - i * argc, i };
	qsort(all, 10, sizeof(all[0]), by_width);
	printf("%d\n", sum(all, 10));
	return name(argv[0]) & 1;
}
