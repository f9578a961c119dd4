/* SPDX-License-Identifier: Apache-2.0 */
/* A loop of steps of a training program or a server, with one CUDA fault in it. --healthy
 * does the same work without the fault. The program times its own steps, and the part of
 * them that the fault took, where a clock around it can measure that. */
#include "loop.h"

#define MAP_SHARED 0x01
#define O_RDWR 2
#define MAX_STEPS (1 << 17)
#define MAX_SLOW 6
#define CLOCK_REALTIME 0

int pthread_mutex_lock(void *m);
int pthread_mutex_unlock(void *m);

u64 every = NO_VALUE, delay_us = NO_VALUE, batch = 1 << 20, launches = 10, dispatch_us, seed = 1;
static u64 steps = NO_VALUE, seconds = NO_VALUE, kernel_us = 200, cpu_us = 300, healthy,
	   cpu = NO_VALUE, hold;
static const char *which = "none", *log_file;

static const struct option opts[] = {
	{ "fault", 's', &which, "which one (none); --help lists them" },
	{ "healthy", 'f', &healthy, "the same program without the fault" },
	{ "every", 'n', &every, "one step in this many has it (each fault has its own default)" },
	{ "delay-us", 'n', &delay_us, "how long it takes in us (each fault has its own default)" },
	{ "steps", 'n', &steps, "steps (100, or no limit with --seconds)" },
	{ "seconds", 'n', &seconds, "seconds after which it stops" },
	{ "launches", 'n', &launches, "kernel launches a step (10)" },
	{ "kernel-us", 'n', &kernel_us, "GPU time of a kernel in us (200)" },
	{ "dispatch-us", 'n', &dispatch_us, "CPU work before each launch in us (0)" },
	{ "cpu-us", 'n', &cpu_us, "CPU work between steps in us (300)" },
	{ "batch", 'n', &batch, "bytes that each step copies to the GPU (1048576)" },
	{ "log", 's', &log_file,
	  "a file to write each step to, which switches the fault on and off: see struct "
	  "step_log" },
	{ "seed", 'n', &seed, "seed of what varies (1)" },
	{ "pin", 'n', &cpu, "run on this CPU only" },
	{ "hold", 'f', &hold,
	  "print \"ready PID\" and wait for a line, then start anew: all CUDA calls come after" },
};

void *stream, *device, *pinned, *host;
const struct dim3 grid_of_all = { 64, 1, 1 }, block_of_all = { 256, 1, 1 };
char kernel_loop;

static const struct fault *fault;
/* The file of --log. Its reader creates it. */
struct step_log {
	volatile u64 mode; /* bit 0: the fault is on */
	u64 count; /* completed steps */
	u64 pids[14];
	struct {
		u64 begin, end; /* ns of the wall clock */
		u64 kind;
	} step[MAX_STEPS];
};

static struct step_log *steps_log;
static u64 done, lost, errors;
static struct {
	const char *op;
	u64 from, each, ns, healthy_ns, seen;
} slows[MAX_SLOW];
static u32 n_slow;
static const char *locked;
static u64 mutex[16]; /* at least a pthread_mutex_t; zero is a valid initial value */

/* Reports whether the fault can occur at all. */
int ever(void)
{
	return !healthy;
}

/* Reports whether the fault is on. */
int faulty(void)
{
	return ever() && (!steps_log || steps_log->mode & 1);
}

/* Reports whether the step has the fault. */
int hit(u64 step)
{
	return step % every == every - 1 && faulty();
}

u64 begin_loss(void)
{
	return now_ns();
}

void end_loss(u64 since)
{
	lost += now_ns() - since;
}

int counted(int err)
{
	errors += err != 0;
	return err;
}

void setting(const char *name, const char *value)
{
	setenv(name, value, 1);
}

/* Makes a driver call slow: the from-th, then every each-th after it (0: only that one). */
void slow(const char *op, u64 from, u64 each, u64 us, u64 healthy_us)
{
	if (n_slow == MAX_SLOW)
		die("loop: too many slow calls", 1);
	slows[n_slow].op = op;
	slows[n_slow].from = from;
	slows[n_slow].each = each;
	slows[n_slow].healthy_ns = healthy_us * 1000;
	slows[n_slow++].ns = us * 1000;
}

/* Makes calls of op and all slow calls exclude each other, as the driver's lock does. */
void lock_in_driver(const char *op)
{
	locked = op;
}

/* Runs inside each driver call. */
static void in_driver(const char *op)
{
	int mine = locked && !strcmp(op, locked);
	u64 ns = 0;

	for (u32 i = 0; i < n_slow; i++) {
		u64 k;

		if (strcmp(slows[i].op, op))
			continue;
		k = ++slows[i].seen;
		if (k == slows[i].from || (slows[i].each && k > slows[i].from &&
					   (k - slows[i].from) % slows[i].each == 0))
			ns += faulty() ? slows[i].ns : slows[i].healthy_ns;
	}
	if (!mine && !ns)
		return;
	if (locked)
		pthread_mutex_lock(mutex);
	burn_cpu(ns);
	if (locked)
		pthread_mutex_unlock(mutex);
}

void *device_alloc(size_t n)
{
	void *p = NULL;

	counted(cudaMalloc(&p, n));
	return p;
}

void launch_all(u64 n)
{
	for (u64 i = 0; i < n; i++) {
		burn_cpu(dispatch_us * 1000);
		counted(cudaLaunchKernel(&kernel_loop, grid_of_all, block_of_all, NULL, 0, stream));
	}
}

void copy_batch(u64 step)
{
	(void)step;
	counted(cudaMemcpyAsync(device, pinned, batch, H2D, stream));
}

void sync_stream(u64 step)
{
	(void)step;
	counted(cudaStreamSynchronize(stream));
}

static u64 wall_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	return (u64)ts.tv_sec * 1000000000ull + (u64)ts.tv_nsec;
}

static void one(u64 step)
{
	u64 begin = wall_ns();

	if (fault->before)
		fault->before(step);
	fault->copy ? fault->copy(step) : copy_batch(step);
	fault->work ? fault->work(step) : launch_all(launches);
	fault->close ? fault->close(step) : sync_stream(step);
	if (fault->after)
		fault->after(step);
	burn_cpu(cpu_us * 1000);
	if (steps_log && done < MAX_STEPS) {
		steps_log->step[done].begin = begin;
		steps_log->step[done].end = wall_ns();
		__atomic_store_n(&steps_log->count, done + 1, __ATOMIC_RELEASE);
	}
	done++;
}

/* Maps the file, so its contents survive when the program is killed. */
static void open_log(void)
{
	int fd;

	if (!log_file)
		return;
	fd = open(log_file, O_RDWR);
	if (fd < 0)
		die(log_file, 1);
	steps_log = mmap(NULL, sizeof(*steps_log), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (steps_log == MAP_FAILED)
		die(log_file, 1);
	close(fd);
	steps_log->pids[0] = (u64)getpid();
}

static const struct fault none = { .name = "none", .help = "no fault", .every = 1 };
static const struct fault *const tables[] = { memory_faults, copy_faults, graph_faults,
					      error_faults };

static const struct fault *find(const char *name)
{
	if (!strcmp(name, none.name))
		return &none;
	for (u32 i = 0; i < ARRAY_SIZE(tables); i++)
		for (const struct fault *f = tables[i]; f->name; f++)
			if (!strcmp(f->name, name))
				return f;
	dprintf(2, "loop: --fault is one of:\n");
	for (u32 i = 0; i < ARRAY_SIZE(tables); i++)
		for (const struct fault *f = tables[i]; f->name; f++)
			dprintf(2, "  %s\n      %s\n", f->name, f->help);
	exit(2);
}

/* Waits for a line, then runs the program again without --hold. A tracer that attached before
 * the line knows the libraries, and sees all calls. */
static void wait_and_start_anew(char **argv)
{
	u32 to = 1;

	dlopen("libcuda.so.1", RTLD_NOW);
	hold_for_line();
	for (u32 i = 1; argv[i]; i++)
		if (strcmp(argv[i], "--hold"))
			argv[to++] = argv[i];
	argv[to] = NULL;
	execv(argv[0], argv);
	die("loop: exec", 1);
}

static void prepare(void)
{
	void **fat = __cudaRegisterFatBinary("simulated");

	__cudaRegisterFunction(fat, &kernel_loop, NULL, "loop_kernel", -1, NULL, NULL, NULL, NULL,
			       NULL);
	if (n_slow || locked)
		check("simSetCallHook", simSetCallHook(in_driver));
	if (counted(cudaStreamCreate(&stream)))
		return; /* the fault leaves no usable GPU */
	check("cudaMallocHost", cudaMallocHost(&pinned, batch));
	host = malloc(batch);
	memset(host, 1, batch);
	device = device_alloc(batch);
}

int main(int argc, char **argv)
{
	u64 deadline, begun;

	options(argc, argv, opts, ARRAY_SIZE(opts),
		"usage: loop [options]\nSteps with one fault of CUDA's in them, or without; prints "
		"one "
		"JSON line.",
		NULL, 0);
	fault = find(which);
	pin_to(cpu);
	if (hold)
		wait_and_start_anew(argv);
	if (every == NO_VALUE || !every)
		every = fault->every ? fault->every : 1;
	if (delay_us == NO_VALUE)
		delay_us = fault->us;
	if (steps == NO_VALUE && seconds == NO_VALUE)
		steps = 100;
	set_env_number("INGERO_SIM_KERNEL_NS", kernel_us * 1000);
	open_log();
	if (fault->plan)
		fault->plan();
	begun = now_ns();
	deadline = seconds == NO_VALUE ? NO_VALUE : begun + seconds * 1000000000ull;
	prepare();
	if (fault->begin)
		fault->begin();
	while (done < steps && now_ns() < deadline)
		one(done);
	printf("{\"program\":\"loop\",\"pid\":%d,\"fault\":\"%s\",\"healthy\":%llu,\"steps\":%llu,"
	       "\"step_ns\":%llu,\"lost_ns\":%llu,\"errors\":%llu}\n",
	       getpid(), fault->name, (unsigned long long)healthy, (unsigned long long)done,
	       (unsigned long long)(done ? (now_ns() - begun) / done : 0), (unsigned long long)lost,
	       (unsigned long long)errors);
	fflush(NULL);
	return 0;
}
