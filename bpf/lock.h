// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * File locks that traced processes were refused, and who holds them. A program that retries after a
 * sleep never waits for the holder, so the ledger has no waker. When these programs run, the kernel
 * has unlocked its list of locks: a holder that releases the file lock at this moment is unknown.
 */
#pragma once

#define EAGAIN 11
#define F_WRLCK 1
#define MOST_LOCKS 32 /* of a file, that are searched. In SQLite's WAL mode, each reader has one */

/* A lock before 6.9. */
struct file_lock___old {
	struct list_head fl_list;
	void *fl_owner;
	unsigned char fl_type;
	unsigned int fl_pid;
	struct file *fl_file;
} __attribute__((preserve_access_index));

#define LOCK_FIELD(lock, name)                                                                     \
	(bpf_core_field_exists((lock)->c)                                                          \
		 ? BPF_CORE_READ(lock, c.flc_##name)                                               \
		 : BPF_CORE_READ((struct file_lock___old *)(lock), fl_##name))

#define LOCK_LINK                                                                                  \
	(bpf_core_field_exists(((struct file_lock *)0)->c)                                         \
		 ? bpf_core_field_offset(struct file_lock, c.flc_list)                             \
		 : bpf_core_field_offset(struct file_lock___old, fl_list))

/* A lock of an open file (flock, F_OFD_SETLK) has the file as its owner; flock locks all bytes. */
static __always_inline bool conflict(struct file_lock *a, struct file_lock *b)
{
	return LOCK_FIELD(a, owner) != LOCK_FIELD(b, owner) &&
	       (LOCK_FIELD(a, type) == F_WRLCK || LOCK_FIELD(b, type) == F_WRLCK) &&
	       BPF_CORE_READ(a, fl_start) <= BPF_CORE_READ(b, fl_end) &&
	       BPF_CORE_READ(b, fl_start) <= BPF_CORE_READ(a, fl_end);
}

/*
 * Returns the tgid that took the lock of a link, 0 if it is not of this machine, or -1 if the lock
 * does not conflict with a request. A separate function: clang would move the offsets of fields that
 * this kernel lacks out of a loop, to where they are not skipped.
 */
static __noinline int holder_of(struct file_lock *request, struct list_head *link)
{
	struct file_lock *lock = (void *)link - LOCK_LINK;
	int tgid;

	if (!conflict(request, lock))
		return -1;
	tgid = LOCK_FIELD(lock, pid);
	return tgid > 0 ? tgid : 0;
}

/* Returns the tgid that took the first lock that conflicts with a request, 0: unknown. */
static __always_inline __u32 holder(struct file_lock *request, struct list_head *locks)
{
	struct list_head *link = BPF_CORE_READ(locks, next);

	for (int i = 0; i < MOST_LOCKS && link && link != locks; i++) {
		int tgid = holder_of(request, link);

		if (tgid >= 0)
			return tgid;
		link = BPF_CORE_READ(link, next);
	}
	return 0;
}

static __noinline int refused(struct file_lock *request, struct list_head *locks)
{
	struct host_event e = { .key = { .kind = HOST_LOCK_REFUSED }, .ns = -1 };
	__u64 name[4] = {};
	struct file *file;
	long len;

	e.key.tgid = current_target();
	if (!e.key.tgid)
		return 0;
	file = LOCK_FIELD(request, file);
	len = bpf_probe_read_kernel_str(name, sizeof(name),
					BPF_CORE_READ(file, f_path.dentry, d_name.name));
	e.key.port = len > 0 ? len - 1 : 0;
	e.key.object[0] = holder(request, locks);
	e.key.object[1] = name[0];
	e.key.object[2] = name[1];
	e.key.object[3] = name[2];
	bpf_get_current_comm(e.comm, sizeof(e.comm));
	return host_add(&e);
}

/* fcntl(F_SETLK). The kernel returns another value to a program that waits. */
SEC("tp_btf/posix_lock_inode")
int BPF_PROG(on_posix_lock, struct inode *inode, struct file_lock *request, int ret)
{
	struct file_lock_context *all;

	if (ret != -EAGAIN || !request)
		return 0;
	all = BPF_CORE_READ(inode, i_flctx);
	return refused(request, &all->flc_posix);
}

/* flock(LOCK_NB) */
SEC("tp_btf/flock_lock_inode")
int BPF_PROG(on_flock, struct inode *inode, struct file_lock *request, int ret)
{
	struct file_lock_context *all;

	if (ret != -EAGAIN || !request)
		return 0;
	all = BPF_CORE_READ(inode, i_flctx);
	return refused(request, &all->flc_flock);
}
