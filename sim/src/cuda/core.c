/* SPDX-License-Identifier: Apache-2.0 */
/* Set-up, settings, CPU and GPU time, and enter(), the start of every call. */
#include "gpu.h"

#if defined(__x86_64__)
#define COLD 0x321cba00u
#else
#define COLD 0u
#endif

/* The stubs compare this: COLD sends them down the second path. */
u32 sim_state __attribute__((visibility("hidden"))) = COLD;

static const volatile u32 not_live;
struct gpu g = { .live = &not_live };
static _Thread_local struct thread self;
static struct lock init_lock;
static u32 initialised;

struct thread *thread_self(void)
{
	return &self;
}

static u32 sched_setting(void)
{
	if (is_env("INGERO_SIM_SYNC", "block"))
		return SCHED_BLOCK;
	if (is_env("INGERO_SIM_SYNC", "yield"))
		return SCHED_YIELD;
	return SCHED_SPIN;
}

static void read_settings(struct config *c)
{
	u64 on = !is_env("INGERO_SIM_ZERO", "1");

	c->kernel_ns = env_u64("INGERO_SIM_KERNEL_NS", 50000 * on);
	c->launch_ns = env_u64("INGERO_SIM_LAUNCH_NS", 3000 * on);
	c->call_ns = env_u64("INGERO_SIM_CALL_NS", 1000 * on);
	c->copy_ns = env_u64("INGERO_SIM_COPY_NS", 2000 * on);
	c->copy_mbps = env_u64("INGERO_SIM_COPY_MBPS", 12000 * on);
	c->pageable_mbps = env_u64("INGERO_SIM_PAGEABLE_MBPS", 6000 * on);
	c->mem = env_u64("INGERO_SIM_MEM", 16ull << 30);
	c->devices = (u32)env_u64("INGERO_SIM_DEVICES", 1);
	if (c->devices > MAX_DEVICES)
		c->devices = MAX_DEVICES;
	c->queue = (u32)env_u64("INGERO_SIM_QUEUE", MAX_QUEUE);
	if (!c->queue || c->queue > MAX_QUEUE)
		c->queue = MAX_QUEUE;
	c->sched = sched_setting();
}

/* The stub's second path: the first call of the process comes here. With
 * INGERO_SIM_STUB=slow every call does. */
__attribute__((visibility("hidden"))) void sim_warm(void)
{
	lock(&init_lock);
	if (!initialised) {
		read_settings(&g.cfg);
		share_open();
		inject_parse(&g.inject, "cu", "cuda");
		g.watched = (g.inject.n > 0) | (u32)steps_open() | (u32)counts_open();
		initialised = 1;
		if (!is_env("INGERO_SIM_STUB", "slow"))
			__atomic_store_n(&sim_state, ~COLD, __ATOMIC_RELEASE);
	}
	unlock(&init_lock);
}

/* A page that Linux zeroes in a forked child, because CUDA does not survive fork(). */
static const volatile u32 *live_page(void)
{
	u32 *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		return NULL;
	g.poll_pid = madvise(p, 4096, MADV_WIPEONFORK) != 0;
	g.watched |= (u32)g.poll_pid;
	*p = 1;
	return p;
}

CU(cuInit)(u32 flags)
{
	int err = OK, n = 0;

	if (flags)
		return ERR_INVALID_VALUE;
	err = inject_hit(&g.inject, "cuInit");
	if (err)
		return err;
	lock(&init_lock);
	if (g.pid && (!*g.live || g.pid != getpid())) {
		err = ERR_NOT_INITIALIZED;
	} else if (!g.pid && !(n = devices_visible())) {
		err = ERR_NO_DEVICE;
	} else if (!g.pid) {
		const volatile u32 *live = live_page();

		mem_init();
		for (int i = 0; i < n; i++) {
			g.dev[i].pool.dev = (u32)i;
			g.dev[i].current = &g.dev[i].pool;
		}
		if (live) {
			g.device_count = n;
			g.pid = getpid();
			__atomic_store_n(&g.live, live, __ATOMIC_RELEASE);
		} else {
			err = ERR_OUT_OF_MEMORY;
		}
	}
	unlock(&init_lock);
	return err;
}

/* Reports whether an error loses the real context: each later call then returns it. */
static int is_sticky(int code)
{
	return code == 700 || code == 702 || code == 710 || (code >= 714 && code <= 719);
}

/* The slow half of enter(): a hook may fork, exec, jump away or never return. */
int watch(const char *op)
{
	int e;

	step_begin();
	counts_add(op);
	if (g.hook) {
		g.hook(op);
		if (!*g.live)
			return ERR_NOT_INITIALIZED;
	}
	if (g.poll_pid && g.pid != getpid())
		return ERR_NOT_INITIALIZED;
	if (g.lost)
		return g.lost;
	e = inject_hit(&g.inject, op);
	if (is_sticky(e))
		g.lost = e;
	return e;
}

/* Makes every driver call run fn at its start, in the calling thread and inside the call.
 * NULL removes the hook. For tests of what may happen inside a call. */
CU(simSetCallHook)(call_hook fn)
{
	g.hook = fn;
	if (fn)
		g.watched = 1;
	return OK;
}

/* Uses ns of CPU time: time in which the thread is off-CPU hardly counts. */
void burn(u64 ns)
{
	u64 last, t, step;

	if (!ns)
		return;
	last = now_ns();
	while (ns) {
		t = now_ns();
		step = t - last;
		last = t;
		if (step > 2000)
			step = 2000;
		ns -= step < ns ? step : ns;
	}
}

u32 sched_of(const struct context *ctx)
{
	u32 s = ctx->flags & SCHED_MASK;

	return s ? s : g.cfg.sched;
}

/* Waits as the device's flags say: spinning, yielding or blocked. */
void wait_until(u64 until, u32 sched)
{
	struct timespec ts = { (s64)(until / 1000000000ull), (s64)(until % 1000000000ull) };

	while (until && now_ns() < until) {
		if (sched & SCHED_BLOCK)
			syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC, TIMER_ABSTIME, &ts, NULL);
		else if (sched & SCHED_YIELD)
			sched_yield();
		else
			cpu_relax();
	}
}

u64 copy_gpu_ns(u64 bytes)
{
	return g.cfg.copy_ns + (g.cfg.copy_mbps ? bytes * 1000 / g.cfg.copy_mbps : 0);
}
