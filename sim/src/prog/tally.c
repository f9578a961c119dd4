/* SPDX-License-Identifier: Apache-2.0 */
#include "tally.h"

struct tallies calls, launches;

/* Adds one to a name's count. The name must stay valid, and only one thread may count. */
int tally(struct tallies *in, const char *name, int err)
{
	struct tally *t = in->t;

	while (t < in->t + in->n && t->name != name && strcmp(t->name, name))
		t++;
	if (t == in->t + in->n) {
		if (in->n == ARRAY_SIZE(in->t))
			die("tally: too many names", 1);
		in->n++;
		t->name = name;
	}
	t->n++;
	t->errors += err != 0;
	return err;
}

/* Prints "key":{"name":n,...}: all counts, or those of failed calls. */
void tally_print(const struct tallies *in, const char *key, int errors)
{
	const char *comma = "";

	printf("\"%s\":{", key);
	for (u32 i = 0; i < in->n; i++) {
		if (errors && !in->t[i].errors)
			continue;
		printf("%s\"%s\":%llu", comma, in->t[i].name,
		       (unsigned long long)(errors ? in->t[i].errors : in->t[i].n));
		comma = ",";
	}
	printf("}");
}

/* Prints the last line of most programs. */
void tally_report(const char *program)
{
	u64 errors = 0;

	for (u32 i = 0; i < calls.n; i++)
		errors += calls.t[i].errors;
	printf("{\"program\":\"%s\",\"pid\":%d,", program, getpid());
	tally_print(&calls, "calls", 0);
	printf(",");
	tally_print(&calls, "failed", 1);
	printf(",");
	tally_print(&launches, "launches", 0);
	printf(",\"errors\":%llu}\n", (unsigned long long)errors);
	fflush(NULL);
}
