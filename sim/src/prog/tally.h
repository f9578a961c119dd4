/* SPDX-License-Identifier: Apache-2.0 */
/* Counts of a program's own calls by name, for the JSON line at its end. */
#ifndef SIM_TALLY_H
#define SIM_TALLY_H

#include "prog.h"

struct tally {
	const char *name;
	u64 n, errors;
};

struct tallies {
	struct tally t[96];
	u32 n;
};

extern struct tallies calls, launches; /* by function; by kernel */

int tally(struct tallies *in, const char *name, int err);
void tally_print(const struct tallies *in, const char *key, int errors);
void tally_report(const char *program);

/* Makes a call and counts it. CHECKED exits if the call fails. */
#define CALL(fn, ...) tally(&calls, #fn, fn(__VA_ARGS__))
#define CHECKED(fn, ...) check(#fn, CALL(fn, __VA_ARGS__))

#endif
