// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * Host activity other than traced calls, summed up where it happens: by kind, process and object.
 * Only events that end a process go through a ring.
 */
#pragma once

/*
 * host_sums: (kind, process, object) -> exact sums. Added to by all programs, read once a second
 * from user space, which deletes idle ones. User space adds a key for each kind without process and
 * object: when the map is full, events go to its sum.
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, HOST_SUMS);
	__type(key, struct host_key);
	__type(value, struct host_sum);
} host_sums SEC(".maps");

/* An event to add. */
struct host_event {
	struct host_key key;
	__u64 bytes;
	__s64 ns; /* negative: unknown */
	__u64 failed; /* 0 or 1 */
	char comm[16];
};

/* The bucket for a time: one an octave from 1,024 ns on. */
static __always_inline __u32 octave(__u64 ns)
{
	__u32 n = 0;

	ns >>= 10;
	if (ns >> 16) {
		ns >>= 16;
		n += 16;
	}
	if (ns >> 8) {
		ns >>= 8;
		n += 8;
	}
	if (ns >> 4) {
		ns >>= 4;
		n += 4;
	}
	if (ns >> 2) {
		ns >>= 2;
		n += 2;
	}
	if (ns >> 1) {
		ns >>= 1;
		n += 1;
	}
	n += ns;
	return n < HOST_BUCKETS ? n : HOST_BUCKETS - 1;
}

/* Adds an event to its sum, which is created if needed. */
static __noinline int host_add(struct host_event *e)
{
	struct host_sum *s = bpf_map_lookup_elem(&host_sums, &e->key);

	if (!s) {
		struct host_sum new = {};

		__builtin_memcpy(new.comm, e->comm, sizeof(new.comm));
		bpf_map_update_elem(&host_sums, &e->key, &new, BPF_NOEXIST);
		s = bpf_map_lookup_elem(&host_sums, &e->key);
	}
	if (!s) {
		struct host_key rest = { .kind = e->key.kind, .peer = e->key.peer };

		drop(DROP_HOST_FULL);
		s = bpf_map_lookup_elem(&host_sums, &rest);
		if (!s)
			return 0;
	}
	add(&s->count, 1);
	if (e->failed)
		add(&s->failed, 1);
	if (e->bytes)
		add(&s->bytes, e->bytes);
	if (e->ns >= 0) {
		add(&s->ns, e->ns);
		__sync_fetch_and_add(&s->hist[octave(e->ns) & (HOST_BUCKETS - 1)], 1);
	}
	return 0;
}

static __always_inline bool is_target(__u32 tgid)
{
	return bpf_map_lookup_elem(&targets, &tgid) != NULL;
}

/* The current process if it is traced, else 0. */
static __always_inline __u32 current_target(void)
{
	__u32 tgid = bpf_get_current_pid_tgid() >> 32;

	return is_target(tgid) ? tgid : 0;
}
