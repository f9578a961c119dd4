/* SPDX-License-Identifier: Apache-2.0 */
/* The file where the ranks of a communicator meet. It is unlinked as soon as all ranks have
 * joined, so it does not outlive them. */
#include "nccl.h"

#define FUTEX_WAIT 0
#define FUTEX_WAKE 1

static void path_of(char *path, size_t n, const char *dir, const u64 name[2])
{
	snprintf(path, n, "%s/ingero-sim-nccl-%016llx%016llx", dir, (unsigned long long)name[0],
		 (unsigned long long)name[1]);
}

struct shared *shared_open(const u64 name[2], int nranks, u64 *len)
{
	char path[96];
	void *p;
	int fd;

	*len = sizeof(struct shared) + (u64)nranks * (u64)nranks * MESSAGES * sizeof(struct slot);
	path_of(path, sizeof(path), "/dev/shm", name);
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (fd < 0) {
		path_of(path, sizeof(path), "/tmp", name);
		fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	}
	if (fd < 0)
		return NULL;
	p = ftruncate(fd, (long)*len) ? MAP_FAILED
				      : mmap(NULL, *len, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	return p == MAP_FAILED ? NULL : p;
}

/* Closes the file. A thread that waits for a stream may read the word once more, so the
 * mapping stays until 32 more are closed. */
void shared_close(struct shared *sh, u64 len)
{
	static struct {
		struct shared *sh;
		u64 len;
	} closed[32];
	static struct lock closed_lock;
	static u32 next;
	u32 i;

	lock(&closed_lock);
	i = next++ % ARRAY_SIZE(closed);
	if (closed[i].sh)
		munmap(closed[i].sh, closed[i].len);
	closed[i].sh = sh;
	closed[i].len = len;
	unlock(&closed_lock);
}

void shared_remove(const u64 name[2])
{
	char path[96];

	path_of(path, sizeof(path), "/dev/shm", name);
	unlink(path);
	path_of(path, sizeof(path), "/tmp", name);
	unlink(path);
}

/* Changes the word and wakes all its waiters. */
void shared_changed(struct shared *sh)
{
	__atomic_add_fetch(&sh->word, 1, __ATOMIC_ACQ_REL);
	syscall(SYS_futex, &sh->word, FUTEX_WAKE, 0x7fffffff);
}

/* Waits until the word differs from seen, at most 50 ms, since a wake-up may be missed. */
void shared_wait(struct shared *sh, u32 seen)
{
	struct timespec most = { 0, 50000000 };

	syscall(SYS_futex, &sh->word, FUTEX_WAIT, seen, &most);
}
