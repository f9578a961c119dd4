// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * Which runtime launch made a driver launch, if only the driver's has a probe: its return address
 * tells, once both were seen there.
 */
#pragma once

/* enum origins_use. Written from user space. */
volatile __u32 origins_mode = ORIGINS_OFF;

/* Needed return addresses that were unknown. Read from user space. */
volatile __u64 origins_unknown = 0;

#define ORIGINS_MAX 16384
#define ORIGIN_OWN (1ULL << 32) /* no runtime launch around it */
#define ORIGIN_MIXED (1ULL << 33) /* launches of several operations come from here */

enum origin_kind {
	ORIGIN_SITE, /* at: a return address. Value: row of the runtime, or an ORIGIN_... */
	ORIGIN_FUNCTION, /* at: function that the driver launches. Value: the runtime's handle */
};

struct origin_key {
	__u64 at;
	__u32 tgid;
	__u32 kind; /* enum origin_kind */
};

/*
 * origins: known origins of launches of a process. Written by threads that launch while both
 * libraries have probes, deleted from user space. When full, launches keep the driver's name.
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, ORIGINS_MAX);
	__type(key, struct origin_key);
	__type(value, __u64);
} origins SEC(".maps");

static __always_inline void learn(const struct origin_key *key, __u64 value)
{
	__u64 *known = bpf_map_lookup_elem(&origins, key);

	if (!known || *known != value)
		bpf_map_update_elem(&origins, key, &value, BPF_ANY);
}

/* Learns from a driver launch inside the runtime launch o, which its probe opened. */
__noinline int learn_origin(struct open_call *o, __u32 tgid, __u64 site, __u64 function)
{
	struct origin_key key = { .at = site, .tgid = tgid, .kind = ORIGIN_SITE };
	__u64 *known, row;

	if (!o || o->rec.result)
		return 0;
	if (!(o->rec.flags & CALL_FOLDED))
		o->rec.result = ORIGIN_LAUNCHED;
	row = o->row;
	known = bpf_map_lookup_elem(&origins, &key);
	if (o->rec.flags & CALL_FOLDED) /* another runtime launch is in between */
		row = ORIGIN_MIXED;
	else if (known && *known < MAX_ROWS && *known != row)
		row = ORIGIN_MIXED;
	else if (known && *known == ORIGIN_MIXED)
		return 0;
	learn(&key, row);
	key.at = function;
	key.kind = ORIGIN_FUNCTION;
	learn(&key, o->rec.arg[0]);
	return 0;
}

/* 1 + the row of the runtime launch that makes a driver launch, 0 for none. */
__noinline int origin_of(__u32 tgid, __u64 site)
{
	struct origin_key key = { .at = site, .tgid = tgid, .kind = ORIGIN_SITE };
	__u64 *known = bpf_map_lookup_elem(&origins, &key);

	if (known)
		return *known < MAX_ROWS && origins_mode == ORIGINS_DERIVE ? *known + 1 : 0;
	if (origins_mode == ORIGINS_DERIVE)
		__sync_fetch_and_add(&origins_unknown, 1);
	learn(&key, ORIGIN_OWN);
	return 0;
}

/* The runtime's handle of the function that the driver launches; `function` if unknown. */
static __always_inline __u64 function_of(__u32 tgid, __u64 function)
{
	struct origin_key key = { .at = function, .tgid = tgid, .kind = ORIGIN_FUNCTION };
	__u64 *known = bpf_map_lookup_elem(&origins, &key);

	return known ? *known : function;
}
