/* SPDX-License-Identifier: Apache-2.0 */
/* The simulated NCCL: ranks meet in a file that all of them map. */
#ifndef SIM_NCCL_H
#define SIM_NCCL_H

#include "../driver.h"
#include "../gate.h"

#define NCCL_VERSION 22803 /* 2.28.3 */
#define MAX_RANKS 256
#define MAX_COMMS 256
#define COLLECTIVES 8 /* meetings kept at a time; see meet() */
#define MESSAGES 16 /* the same for each pair of ranks, per direction */

typedef int ncclResult_t;

enum {
	NCCL_OK,
	NCCL_CUDA,
	NCCL_SYSTEM,
	NCCL_INTERNAL,
	NCCL_ARGUMENT,
	NCCL_USAGE,
	NCCL_REMOTE,
	NCCL_IN_PROGRESS
};

/* A meeting of ranks at one kernel. `latest` only grows, since later uses begin later. */
struct slot {
	u64 latest; /* the latest begin so far */
	u64 came; /* arrivals, over all uses */
};

struct shared {
	u32 nranks, joined;
	u32 word; /* changes whenever a rank joins, arrives or splits */
	u32 pad;
	u8 taken[MAX_RANKS];
	u64 split_came;
	struct {
		int color, key;
	} split[2][MAX_RANKS];
	struct slot collective[COLLECTIVES];
	struct slot message[]; /* [from][to][MESSAGES] */
};

struct comm {
	u32 used; /* COMM_* */
	int rank, nranks, device;
	u64 name[2]; /* of the shared file */
	struct shared *sh;
	u64 len;
	u64 collectives, splits;
	u64 *messages; /* counts sent to and received from each rank */
	u32 outstanding; /* kernels whose end is not known yet */
	u32 aborted, closing;
	unsigned long thread;
	void *module, *event, *last_stream;
};

enum { COMM_FREE, COMM_LIVE, COMM_DEAD };

struct unique_id { /* ncclUniqueId */
	u64 magic, name[2];
	u8 rest[104];
};

_Static_assert(sizeof(struct unique_id) == 128, "ncclUniqueId has 128 bytes");

/* Driver functions that libnccl finds by dlsym. */
#define NCCL_DRIVER(X)                                                                             \
	X(cuInit, (u32))                                                                           \
	X(cuCtxGetCurrent, (void **))                                                              \
	X(cuCtxSetCurrent, (void *))                                                               \
	X(cuCtxGetDevice, (int *))                                                                 \
	X(cuDevicePrimaryCtxRetain, (void **, int))                                                \
	X(cuModuleLoadData, (void **, const void *))                                               \
	X(cuModuleGetFunction, (void **, void *, const char *))                                    \
	X(cuLaunchKernelEx, (const struct launch_config *, void *, void **, void **))              \
	X(cuEventCreate, (void **, u32))                                                           \
	X(cuEventRecord, (void *, void *))                                                         \
	X(cuStreamWaitEvent, (void *, void *, u32))                                                \
	X(cuStreamIsCapturing, (void *, int *))                                                    \
	X(cuMemAlloc_v2, (devptr *, size_t))                                                       \
	X(cuMemFree_v2, (devptr))                                                                  \
	X(simGate, (void *))                                                                       \
	X(simLook, (void))

struct nccl_driver {
#define X(name, params) int(*name) params;
	NCCL_DRIVER(X)
#undef X
};

/* The work that one call of a collective enqueues. */
struct task {
	struct comm *comm;
	void *stream;
	int peer; /* -1: a collective; else the peer of a message */
	int receive;
	const char *kernel;
	u64 ns;
};

extern struct nccl_driver drv;

int nccl_fail(int err, const char *why);
int nccl_driver(void);
struct shared *shared_open(const u64 name[2], int nranks, u64 *len);
void shared_close(struct shared *sh, u64 len);
void shared_remove(const u64 name[2]);
void shared_changed(struct shared *sh);
void shared_wait(struct shared *sh, u32 seen);
int comm_live(const struct comm *c);
void comm_settle(struct comm *c);
void comm_reuse(struct comm *c);
int comm_joined(const struct comm *c);
int enqueue(struct task t);
int group_defer_join(struct comm *c);

int pthread_create(unsigned long *t, const void *attr, void *(*fn)(void *), void *arg);
int pthread_join(unsigned long t, void **result);
void *malloc(size_t n);
void free(void *p);
int unlink(const char *path);
int ftruncate(int fd, long len);
int snprintf(char *s, size_t n, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

#endif
