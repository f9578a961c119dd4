/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by every part of the simulated CUDA stack: types, hints, and the few C library
 * functions that the stack uses. It includes no system header, so one compiler builds both
 * architectures. */
#ifndef SIM_BASE_H
#define SIM_BASE_H

#include <stddef.h>
#include <stdint.h>

typedef uint8_t u8;
typedef uint32_t u32;
typedef uint64_t u64;
typedef int64_t s64;

#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)
#define EXPORT __attribute__((visibility("default")))
#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))

/* Linux and POSIX constants, equal on x86-64 and arm64. */
#define PROT_NONE 0
#define PROT_READ 1
#define PROT_WRITE 2
#define MAP_SHARED 0x01
#define MAP_PRIVATE 0x02
#define MAP_ANONYMOUS 0x20
#define MAP_NORESERVE 0x4000
#define MAP_FAILED ((void *)-1)
#define MADV_DONTNEED 4
#define MADV_WIPEONFORK 18
#define CLOCK_MONOTONIC 1
#define TIMER_ABSTIME 1
#define RTLD_NOW 2
#define RTLD_GLOBAL 0x100
#define EINTR 4
#define O_RDONLY 0
#define O_WRONLY 1
#define O_RDWR 2
#define O_CREAT 0100
#define O_TRUNC 01000
#define O_CLOEXEC 02000000

struct timespec {
	s64 tv_sec;
	s64 tv_nsec;
};

/* The dynamic linker resolves these in the process, whatever its C library. */
int clock_gettime(int clock, struct timespec *ts);
char *getenv(const char *name);
long syscall(long nr, ...);
void *mmap(void *addr, size_t len, int prot, int flags, int fd, long off);
int munmap(void *addr, size_t len);
int madvise(void *addr, size_t len, int advice);
void *memcpy(void *dst, const void *src, size_t n);
void *memset(void *dst, int c, size_t n);
int strcmp(const char *a, const char *b);
int strncmp(const char *a, const char *b, size_t n);
size_t strlen(const char *s);
char *strchr(const char *s, int c);
int getpid(void);
int open(const char *path, int flags, ...);
long read(int fd, void *buf, size_t n);
long write(int fd, const void *buf, size_t n);
int close(int fd);
int sched_yield(void);
void *dlopen(const char *file, int mode);
void *dlsym(void *lib, const char *name);

#if defined(__x86_64__)
#define SYS_futex 202
#define SYS_clock_nanosleep 230
static inline void cpu_relax(void)
{
	__asm__ volatile("pause" ::: "memory");
}
#elif defined(__aarch64__)
#define SYS_futex 98
#define SYS_clock_nanosleep 115
static inline void cpu_relax(void)
{
	__asm__ volatile("yield" ::: "memory");
}
#else
#error "x86-64 and arm64 only"
#endif

/* Returns monotonic time in nanoseconds. */
static inline u64 now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (u64)ts.tv_sec * 1000000000ull + (u64)ts.tv_nsec;
}

/* Parses "123", "0x10" or "16G" (K, M, G: powers of 1024); returns dflt if unset. */
static inline u64 env_u64(const char *name, u64 dflt)
{
	const char *s = getenv(name);
	u64 v = 0;

	if (!s || !*s)
		return dflt;
	for (; *s >= '0' && *s <= '9'; s++)
		v = v * 10 + (u64)(*s - '0');
	switch (*s) {
	case 'G':
		v <<= 10; /* fall through */
	case 'M':
		v <<= 10; /* fall through */
	case 'K':
		v <<= 10;
	}
	return v;
}

static inline int is_env(const char *name, const char *value)
{
	const char *s = getenv(name);

	return s && !strcmp(s, value);
}

/* Maps the file that an environment variable names; NULL without one. */
static inline void *map_env(const char *name, size_t size)
{
	const char *path = getenv(name);
	void *p;
	int fd;

	if (!path || !*path)
		return NULL;
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		return NULL;
	p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	return p == MAP_FAILED ? NULL : p;
}

/* A futex lock, so that no thread library is needed: 0 free, 1 held, 2 held with waiters. */
struct lock {
	u32 word;
};

void lock_slow(struct lock *l);
void lock_wake(struct lock *l);

static inline void lock(struct lock *l)
{
	u32 free = 0;

	if (unlikely(!__atomic_compare_exchange_n(&l->word, &free, 1, 0, __ATOMIC_ACQUIRE,
						  __ATOMIC_RELAXED)))
		lock_slow(l);
}

static inline void unlock(struct lock *l)
{
	if (unlikely(__atomic_exchange_n(&l->word, 0, __ATOMIC_RELEASE) == 2))
		lock_wake(l);
}

/* Planned failures and the call hook; see inject.c. */
typedef void (*call_hook)(const char *op);

struct inject_rule {
	char op[64];
	u64 nth; /* the first call that fails, from 1 */
	u32 on; /* non-zero: every later call fails too */
	int code;
	u64 seen;
};

struct inject {
	struct inject_rule rules[16];
	u32 n;
};

void inject_parse(struct inject *in, const char *prefix, const char *not_prefix);
int inject_hit(struct inject *in, const char *op);

/* Exact counts for tests; see counts.c. */
int counts_open(void);
void counts_add(const char *name);

#endif
