/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the workload programs: their C library, the CUDA runtime's interface, options,
 * and a repeatable random number generator. */
#ifndef SIM_PROG_H
#define SIM_PROG_H

#include "../base.h"

#define SIGKILL 9
#define SIGUSR1 10
#define SIGALRM 14
#define SA_SIGINFO 4
#define SA_ONSTACK 0x08000000
#define O_CREAT 0100
#define O_TRUNC 01000
#define O_WRONLY 1
#if defined(__x86_64__)
#define SYS_exit 60
#define SYS_gettid 186
#else
#define SYS_exit 93
#define SYS_gettid 178
#endif

typedef unsigned long pthread_t;

int printf(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
int dprintf(int fd, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
int snprintf(char *s, size_t n, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
int fflush(void *file);
long write(int fd, const void *buf, size_t n);
int pipe(int fd[2]);
int unlink(const char *path);
int rename(const char *from, const char *to);
int dup2(int from, int to);
int fork(void);
int execv(const char *path, char *const argv[]);
int waitpid(int pid, int *status, int options);
int kill(int pid, int sig);
int raise(int sig);
int pause(void);
int nanosleep(const struct timespec *want, struct timespec *left);
int sched_setaffinity(int pid, size_t size, const void *mask);
int setenv(const char *name, const char *value, int overwrite);
void exit(int status) __attribute__((noreturn));
void _exit(int status) __attribute__((noreturn));
void *malloc(size_t n);
void free(void *p);
unsigned long long strtoull(const char *s, char **end, int base);
int pthread_create(pthread_t *t, const void *attr, void *(*fn)(void *), void *arg);
int pthread_join(pthread_t t, void **result);
void pthread_exit(void *result) __attribute__((noreturn));
int dlclose(void *lib);
char *dlerror(void);

/* The runtime's interface, as in cuda_runtime_api.h. */
struct dim3 {
	u32 x, y, z;
};

enum { H2H, H2D, D2H, D2D };

const char *cudaGetErrorName(int err);
int cudaGetLastError(void);
int cudaSetDevice(int dev);
int cudaGetDeviceCount(int *n);
int cudaMalloc(void **p, size_t n);
int cudaFree(void *p);
int cudaMallocAsync(void **p, size_t n, void *s);
int cudaFreeAsync(void *p, void *s);
int cudaMallocManaged(void **p, size_t n, u32 flags);
int cudaMallocHost(void **p, size_t n);
int cudaHostAlloc(void **p, size_t n, u32 flags);
int cudaFreeHost(void *p);
int cudaMemcpy(void *dst, const void *src, size_t n, int kind);
int cudaMemcpyAsync(void *dst, const void *src, size_t n, int kind, void *s);
int cudaMemset(void *p, int v, size_t n);
int cudaMemsetAsync(void *p, int v, size_t n, void *s);
int cudaLaunchKernel(const void *f, struct dim3 grid, struct dim3 block, void **args, size_t shared,
		     void *s);
int __cudaLaunchKernel(void *f, struct dim3 grid, struct dim3 block, void **args, size_t shared,
		       void *s);
int cudaLaunchHostFunc(void *s, void (*fn)(void *), void *data);
int cudaStreamCreate(void **s);
int cudaStreamDestroy(void *s);
int cudaStreamSynchronize(void *s);
int cudaStreamQuery(void *s);
int cudaDeviceSynchronize(void);
int cudaEventCreate(void **ev);
int cudaEventRecord(void *ev, void *s);
int cudaEventSynchronize(void *ev);
int cudaEventDestroy(void *ev);
int cudaStreamBeginCapture(void *s, int mode);
int cudaStreamEndCapture(void *s, void **graph);
int cudaGraphInstantiate(void **exec, void *graph, unsigned long long flags);
int cudaGraphLaunch(void *exec, void *s);
int cudaGraphExecDestroy(void *exec);
int cudaGraphDestroy(void *graph);
void **__cudaRegisterFatBinary(void *image);
void __cudaRegisterFunction(void **h, const char *host_fn, char *dev_fn, const char *name,
			    int limit, void *tid, void *bid, void *bdim, void *gdim, int *warp);
int simSetCallHook(void (*fn)(const char *op));

/* One option: "--name VALUE" for kind 'n' (number) or 's' (text), "--name" for 'f' (flag). */
struct option {
	const char *name;
	char kind;
	void *value; /* u64, const char * or u64 */
	const char *help;
};

/* Parses options; other arguments go to rest, whose length it returns. Exits on --help (0)
 * and on unknown options (2). */
int options(int argc, char **argv, const struct option *o, int n, const char *usage,
	    const char **rest, int max_rest);
void die(const char *what, int err) __attribute__((noreturn));
void check(const char *what, int err);
u64 random_next(u64 *state);
void sleep_ns(u64 ns);
void sleep_until(u64 at);
void pin_to(u64 cpu);
void set_env_number(const char *name, u64 v);
void hold_for_line(void);
void burn_cpu(u64 ns);
u64 thread_count(u64 total, u64 threads, u64 index);

#define NO_VALUE (~0ull)

#endif
