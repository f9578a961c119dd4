/* SPDX-License-Identifier: Apache-2.0 */
/* Random allocations and frees of every kind, out of order, some of which must fail. Prints
 * the simulated driver's own count of its memory for comparison. */
#include "api.h"

#define CHUNK (2ull << 20)
#define MAX_LIVE 4096

static u64 ops = 1000, seed = 1, live_max = 256, size_max = 1 << 20, every, ask, hold, devices = 1,
	   mistakes = 1, drain;

static const struct option opts[] = {
	{ "ops", 'n', &ops, "number of allocations plus frees (1000)" },
	{ "seed", 'n', &seed, "seed of everything random (1)" },
	{ "live", 'n', &live_max,
	  "how many allocations there may be at a time (256, at most 4096)" },
	{ "size", 'n', &size_max, "largest allocation in bytes (1048576)" },
	{ "devices", 'n', &devices, "number of devices to use in turn (1; INGERO_SIM_DEVICES)" },
	{ "mistakes", 'n', &mistakes,
	  "0: no double free, and no request for more memory than there is (1)" },
	{ "every", 'n', &every,
	  "operations between two lines with the driver's own count of memory" },
	{ "ask", 'n', &ask, "the same, and wait for a line on stdin after each" },
	{ "drain", 'f', &drain, "free all at the end" },
	{ "hold", 'f', &hold,
	  "print \"ready PID\" and wait for a line before the first CUDA call" },
};

struct one {
	const struct family *family;
	void *p;
	void *handle; /* of physical memory */
	u64 size, device;
};

struct family {
	const char *name;
	int (*alloc)(struct one *o, u64 size);
	int (*release)(struct one *o);
	int free_error; /* error of a second free; 0: not tried */
};

static void *stream[16], *pool[16];
static u64 now_on, doubles, wrong;

static int a_malloc(struct one *o, u64 n)
{
	return CALL(cudaMalloc, &o->p, n);
}
static int f_free(struct one *o)
{
	return CALL(cudaFree, o->p);
}
static int a_managed(struct one *o, u64 n)
{
	return CALL(cudaMallocManaged, &o->p, n, 1);
}
static int a_host(struct one *o, u64 n)
{
	return CALL(cudaMallocHost, &o->p, n);
}
static int a_hostalloc(struct one *o, u64 n)
{
	return CALL(cudaHostAlloc, &o->p, n, 0);
}
static int f_host(struct one *o)
{
	return CALL(cudaFreeHost, o->p);
}
static int a_async(struct one *o, u64 n)
{
	return CALL(cudaMallocAsync, &o->p, n, stream[now_on]);
}
static int a_pool(struct one *o, u64 n)
{
	return CALL(cudaMallocFromPoolAsync, &o->p, n, pool[now_on], stream[now_on]);
}
static int f_async(struct one *o)
{
	return CALL(cudaFreeAsync, o->p, stream[o->device]);
}

static int a_pitch(struct one *o, u64 n)
{
	size_t pitch;

	return CALL(cudaMallocPitch, &o->p, &pitch, 1 + n % 1000, 1 + n / 1000);
}

static int a_3d(struct one *o, u64 n)
{
	struct pitched p = { 0 };
	int err = CALL(cudaMalloc3D, &p, (struct extent){ 1 + n % 100, 10, 1 + n / 1000 });

	o->p = p.ptr;
	return err;
}

static int a_array(struct one *o, u64 n)
{
	struct channels c = { 32, 0, 0, 0, 2 };

	return CALL(cudaMallocArray, &o->p, &c, 1 + n % 1000 / 4, 1 + n / 1000, 0);
}
static int f_array(struct one *o)
{
	return CALL(cudaFreeArray, o->p);
}

static int a_driver(struct one *o, u64 n)
{
	return CALL(cuMemAlloc_v2, (devptr *)&o->p, n);
}
static int f_driver(struct one *o)
{
	return CALL(cuMemFree_v2, (devptr)o->p);
}
static int a_driver_host(struct one *o, u64 n)
{
	return CALL(cuMemAllocHost_v2, &o->p, n);
}
static int f_driver_host(struct one *o)
{
	return CALL(cuMemFreeHost, o->p);
}

static int a_register(struct one *o, u64 n)
{
	int err;

	o->p = malloc(n);
	err = CALL(cudaHostRegister, o->p, n, 0);
	if (err)
		free(o->p);
	return err;
}

static int f_register(struct one *o)
{
	int err = CALL(cudaHostUnregister, o->p);

	if (!err)
		free(o->p);
	return err;
}

/* Reserved addresses, physical memory and a mapping, as expandable segments use. */
static int a_vmm(struct one *o, u64 n)
{
	struct prop prop = { .type = 1, .location = 1, .device = (int)now_on };
	struct access access = { 1, (int)now_on, 3 };
	devptr p = 0;
	int err;

	o->size = (n + CHUNK - 1) & ~(CHUNK - 1);
	err = CALL(cuMemCreate, &o->handle, o->size, &prop, 0);
	if (err)
		return err;
	CHECKED(cuMemAddressReserve, &p, o->size, 0, 0, 0);
	CHECKED(cuMemMap, p, o->size, 0, o->handle, 0);
	CHECKED(cuMemSetAccess, p, o->size, &access, 1);
	o->p = (void *)p;
	return 0;
}

static int f_vmm(struct one *o)
{
	CHECKED(cuMemUnmap, (devptr)o->p, o->size);
	CHECKED(cuMemAddressFree, (devptr)o->p, o->size);
	return CALL(cuMemRelease, o->handle);
}

static const struct family families[] = {
	{ "malloc", a_malloc, f_free, 1 },
	{ "pitch", a_pitch, f_free, 1 },
	{ "3d", a_3d, f_free, 1 },
	{ "managed", a_managed, f_free, 1 },
	{ "async", a_async, f_async, 1 },
	{ "async freed by cudaFree", a_async, f_free, 1 },
	{ "pool", a_pool, f_async, 1 },
	{ "host", a_host, f_host, 1 },
	{ "hostalloc", a_hostalloc, f_host, 1 },
	{ "register", a_register, f_register, 0 },
	{ "array", a_array, f_array, 400 },
	{ "driver", a_driver, f_driver, 1 },
	{ "driver host", a_driver_host, f_driver_host, 1 },
	{ "vmm", a_vmm, f_vmm, 0 },
};

static struct one live[MAX_LIVE];
static u64 n_live;

static void use(u64 device)
{
	if (device != now_on)
		CHECKED(cudaSetDevice, (int)device);
	now_on = device;
}

static void print_memory(const char *key, int dev, int family, const char *comma)
{
	struct sim_memory m;

	check("simMemory", simMemory(dev, family, &m));
	printf("\"%s\":{\"live_bytes\":%llu,\"live\":%llu,\"peak_bytes\":%llu,\"allocs\":%llu,"
	       "\"frees\":%llu}%s",
	       key, (unsigned long long)m.live_bytes, (unsigned long long)m.live,
	       (unsigned long long)m.peak_bytes, (unsigned long long)m.allocs,
	       (unsigned long long)m.frees, comma);
}

/* Prints the driver's counts by device and by simMemory's families. */
static void print_truth(u64 done)
{
	static const char *const names[] = { "device", "pool",   "managed",   "array",
					     "vmm",    "pinned", "registered" };

	printf("{\"truth\":%llu,\"devices\":[", (unsigned long long)done);
	for (int dev = 0; dev < (int)devices; dev++) {
		printf("{");
		print_memory("all", dev, -1, ",");
		for (int i = 0; i < (int)ARRAY_SIZE(names); i++)
			print_memory(names[i], dev, i, i + 1 < (int)ARRAY_SIZE(names) ? "," : "");
		printf("}%s", dev + 1 < (int)devices ? "," : "");
	}
	printf("]}\n");
	fflush(NULL);
}

static void wait_for_line(void)
{
	char c = 0;

	while (c != '\n' && read(0, &c, 1) == 1)
		;
}

/* Frees a second time, which must fail; with the error that the first free did not return. */
static void free_again(struct one *o)
{
	doubles++;
	wrong += o->family->release(o) != o->family->free_error;
	cudaGetLastError();
}

static void free_one(u64 i, int again)
{
	struct one o = live[i];

	live[i] = live[--n_live];
	use(o.device);
	wrong += o.family->release(&o) != 0;
	if (again && o.family->free_error)
		free_again(&o);
}

static void allocate(u64 size)
{
	struct one *o = &live[n_live];

	memset(o, 0, sizeof(*o));
	use(random_next(&seed) % devices);
	o->family = &families[random_next(&seed) % ARRAY_SIZE(families)];
	o->device = now_on;
	if (o->family->alloc(o, size))
		cudaGetLastError(); /* planned, or out of memory: nothing to free */
	else
		n_live++;
}

static void step(void)
{
	u64 r = random_next(&seed), size = 1 + random_next(&seed) % size_max;
	struct one o = { .family = &families[0] };

	if (n_live && (n_live == live_max || r % 100 < 45)) {
		free_one(random_next(&seed) % n_live, mistakes && r % 7 == 0);
	} else if (mistakes && r % 101 == 0) {
		wrong += o.family->alloc(&o, 1ull << 50) != 2;
		cudaGetLastError();
	} else {
		allocate(size);
	}
}

static void report(void)
{
	printf("{\"program\":\"memory\",\"pid\":%d,\"ops\":%llu,\"live\":%llu,\"double_frees\":%"
	       "llu,"
	       "\"wrong\":%llu,",
	       getpid(), (unsigned long long)ops, (unsigned long long)n_live,
	       (unsigned long long)doubles, (unsigned long long)wrong);
	tally_print(&calls, "calls", 0);
	printf(",");
	tally_print(&calls, "failed", 1);
	printf("}\n");
	fflush(NULL);
}

int main(int argc, char **argv)
{
	options(argc, argv, opts, ARRAY_SIZE(opts),
		"usage: memory [options]\nAllocates and frees at random; prints what it called, "
		"and "
		"what the driver holds.",
		NULL, 0);
	if (!live_max || live_max > MAX_LIVE || !size_max || !devices || devices > 16)
		die("memory: --live is 1 to 4096, --devices 1 to 16", 2);
	if (hold)
		hold_for_line();
	for (now_on = devices; now_on--;) {
		CHECKED(cudaSetDevice, (int)now_on);
		CHECKED(cudaStreamCreate, &stream[now_on]);
		CHECKED(cudaDeviceGetDefaultMemPool, &pool[now_on], (int)now_on);
		if (!now_on)
			break;
	}
	for (u64 i = 1; i <= ops; i++) {
		step();
		if ((every && i % every == 0) || (ask && i % ask == 0))
			print_truth(i);
		if (ask && i % ask == 0)
			wait_for_line();
	}
	while (drain && n_live)
		free_one(n_live - 1, 0);
	print_truth(ops);
	report();
	return wrong != 0;
}
