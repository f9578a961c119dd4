/* SPDX-License-Identifier: Apache-2.0 */
/* One GPU for several processes: those with the same INGERO_SIM_SHARE=FILE take turns on it.
 * A kernel begins when all work submitted to the device earlier, by any process, is done. */
#include "gpu.h"

int ftruncate(int fd, long len);

static u64 *busy_until; /* by physical device */

void share_open(void)
{
	const char *path = getenv("INGERO_SIM_SHARE");
	int fd;
	void *p;

	if (!path || !*path)
		return;
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (fd < 0)
		return;
	p = ftruncate(fd, 4096) ? MAP_FAILED
				: mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	busy_until = p == MAP_FAILED ? NULL : p;
}

/* Returns the start of work of ns that could begin at start. The caller holds the lock. */
u64 share_turn(u32 device, u64 start, u64 ns)
{
	u64 *at = busy_until ? &busy_until[g.dev[device].physical] : NULL;
	u64 until, from;

	if (!at)
		return start;
	until = __atomic_load_n(at, __ATOMIC_ACQUIRE);
	do {
		from = start > until ? start : until;
	} while (!__atomic_compare_exchange_n(at, &until, from + ns, 0, __ATOMIC_ACQ_REL,
					      __ATOMIC_ACQUIRE));
	return from;
}
