/* SPDX-License-Identifier: Apache-2.0 */
/* Planned failures (INGERO_SIM_FAIL) and the futex lock: compiled into both libraries. */
#include "base.h"

#define FUTEX_WAIT_PRIVATE 128
#define FUTEX_WAKE_PRIVATE 129

void lock_slow(struct lock *l)
{
	for (int i = 0; i < 64; i++) {
		u32 free = 0;

		if (__atomic_compare_exchange_n(&l->word, &free, 1, 0, __ATOMIC_ACQUIRE,
						__ATOMIC_RELAXED))
			return;
		cpu_relax();
	}
	while (__atomic_exchange_n(&l->word, 2, __ATOMIC_ACQUIRE))
		syscall(SYS_futex, &l->word, FUTEX_WAIT_PRIVATE, 2, NULL);
}

void lock_wake(struct lock *l)
{
	syscall(SYS_futex, &l->word, FUTEX_WAKE_PRIVATE, 1);
}

static const char *number(const char *s, u64 *v)
{
	for (*v = 0; *s >= '0' && *s <= '9'; s++)
		*v = *v * 10 + (u64)(*s - '0');
	return s;
}

/* Parses one "op:n=code" or "op:n+=code"; returns the rest of the string. */
static const char *parse_rule(const char *s, struct inject_rule *r)
{
	u64 code = 0;
	size_t n = 0;

	for (; *s && *s != ':' && *s != ','; s++)
		if (n < sizeof(r->op) - 1)
			r->op[n++] = *s;
	r->op[n] = 0;
	r->nth = 1;
	r->on = 0;
	r->seen = 0;
	if (*s == ':')
		s = number(s + 1, &r->nth);
	if (*s == '+') {
		r->on = 1;
		s++;
	}
	if (*s == '=')
		s = number(s + 1, &code);
	r->code = (int)code;
	while (*s && *s++ != ',')
		;
	return s;
}

/* Takes the rules whose operation begins with prefix but not with not_prefix. */
void inject_parse(struct inject *in, const char *prefix, const char *not_prefix)
{
	const char *s = getenv("INGERO_SIM_FAIL");

	in->n = 0;
	while (s && *s && in->n < ARRAY_SIZE(in->rules)) {
		struct inject_rule *r = &in->rules[in->n];

		s = parse_rule(s, r);
		if (strncmp(r->op, prefix, strlen(prefix)) ||
		    !strncmp(r->op, not_prefix, strlen(not_prefix)))
			continue;
		if (r->code)
			in->n++;
	}
}

/* "cuMemAlloc" also matches cuMemAlloc_v2. */
static int same_op(const char *rule, const char *op)
{
	size_t n = strlen(rule);

	return !strncmp(rule, op, n) && (!op[n] || !strncmp(op + n, "_v", 2));
}

/* Counts one call of op; returns the code with which it must fail, or 0. */
int inject_hit(struct inject *in, const char *op)
{
	for (u32 i = 0; i < in->n; i++) {
		struct inject_rule *r = &in->rules[i];
		u64 k;

		if (!same_op(r->op, op))
			continue;
		k = __atomic_add_fetch(&r->seen, 1, __ATOMIC_RELAXED);
		if (k == r->nth || (r->on && k > r->nth))
			return r->code;
	}
	return 0;
}
