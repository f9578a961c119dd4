// SPDX-License-Identifier: Apache-2.0
/*
 * Makes traced calls and prints, for each call, readings of its own clocks before and after
 * it: truth SCENARIO key=value...
 */
#include "truth.h"
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>

struct settings set = { .calls = 10, .ns = 300000, .cpu = -1, .helper = -1, .dir = "." };
struct shared *shared;
u64 waited;
unsigned turn;
pid_t victim;

struct reading {
	u64 wall, cpu, delay, throttled, hog[MAX_HOGS];
	u64 blocks, preemptions; /* voluntary and involuntary switches away */
	u64 left, came, woken; /* the same and wake-ups, by the witness */
	u64 aside; /* between the readings of the wall clock and the CPU clock */
};

struct record {
	int driver;
	void (*body)(void);
	struct reading before, after;
	u64 begun, ended; /* inside the call, nearest to its ends */
	u64 blocked; /* in the call */
	u64 gap; /* before the call */
};

static struct record *records;
static unsigned made;
static int schedstat = -1, cpustat = -1;

void must(int ok, const char *what)
{
	if (ok)
		return;
	fprintf(stderr, "%s: %s\n", what, strerror(errno));
	exit(1);
}

static u64 clock_of(clockid_t id)
{
	struct timespec t;

	must(!clock_gettime(id, &t), "clock_gettime");
	return t.tv_sec * 1000000000ULL + t.tv_nsec;
}

/* run_delay: how long this thread was runnable without a CPU. */
static u64 delay(void)
{
	char text[64];
	u64 exec, wait;
	ssize_t n = pread(schedstat, text, sizeof(text) - 1, 0);

	must(n > 0, "schedstat");
	text[n] = 0;
	must(sscanf(text, "%lu %lu", &exec, &wait) == 2, "schedstat");
	return wait;
}

/* The throttled time of its cgroup: version 1 in ns, version 2 in us. */
static u64 throttled(void)
{
	char text[512], *at;
	ssize_t n;

	if (cpustat < 0)
		return 0;
	n = pread(cpustat, text, sizeof(text) - 1, 0);
	must(n > 0, "cpu.stat");
	text[n] = 0;
	at = strstr(text, "throttled_time ");
	if (at)
		return strtoull(at + 15, NULL, 10);
	at = strstr(text, "throttled_usec ");
	must(at != NULL, "cpu.stat");
	return strtoull(at + 15, NULL, 10) * 1000;
}

/* Counts the thread's switches away from the CPU, and the witness's events. */
static void count_switches(struct reading *r)
{
	struct rusage u;

	must(!getrusage(RUSAGE_THREAD, &u), "getrusage");
	r->blocks = u.ru_nvcsw;
	r->preemptions = u.ru_nivcsw;
	if (!set.witness)
		return;
	r->left = set.witness[1];
	r->came = set.witness[2];
	r->woken = set.witness[3];
}

/*
 * Reads the wall clock nearest to the call, the CPU clock farthest: reading the CPU clock makes
 * the scheduler check the thread's time slice and quota, which may end there.
 */
static void read_before(struct reading *r)
{
	r->cpu = clock_of(CLOCK_THREAD_CPUTIME_ID);
	r->aside = now();
	count_switches(r);
	r->throttled = throttled();
	for (int i = 0; i < set.hogs; i++)
		r->hog[i] = clock_of(set.hog[i]);
	r->delay = delay();
	r->wall = now();
	r->aside = r->wall - r->aside;
}

static void read_after(struct reading *r)
{
	r->wall = now();
	r->delay = delay();
	for (int i = 0; i < set.hogs; i++)
		r->hog[i] = clock_of(set.hog[i]);
	r->throttled = throttled();
	count_switches(r);
	r->aside = now() - r->wall;
	r->cpu = clock_of(CLOCK_THREAD_CPUTIME_ID);
}

static struct record *current[2]; /* by driver */

static void inside(struct record *r)
{
	r->begun = now();
	r->body();
	r->ended = now();
}

static void inside_driver(void)
{
	inside(current[1]);
}

static void inside_runtime(void)
{
	inside(current[0]);
}

void traced(int driver, void (*body)(void))
{
	struct record *r = current[driver] = &records[made++];

	*r = (struct record){ .driver = driver, .gap = waited };
	waited = 0;
	r->body = body;
	read_before(&r->before);
	if (driver) {
		in_driver = inside_driver;
		cuStreamSynchronize(NULL);
	} else {
		in_runtime = inside_runtime;
		cudaStreamSynchronize(NULL);
	}
	read_after(&r->after);
	r->blocked = waited;
	waited = 0;
}

static void print_reading(const struct reading *r)
{
	printf(" %lu %lu %lu", r->wall, r->cpu, r->aside);
	printf(" %lu %lu %lu %lu", r->delay, r->throttled, r->blocks, r->preemptions);
	printf(" %lu %lu %lu", r->left, r->came, r->woken);
	for (int i = 0; i < MAX_HOGS; i++)
		printf(" %lu", r->hog[i]);
}

static void print_records(void)
{
	for (unsigned i = 0; i < made; i++) {
		printf("call %d", records[i].driver);
		print_reading(&records[i].before);
		print_reading(&records[i].after);
		printf(" %ld %ld", (long)records[i].blocked, (long)records[i].gap);
		printf(" %lu %lu\n", records[i].begun, records[i].ended);
	}
	must(!fflush(stdout), "standard output");
}

/* Wakes each call that has announced its wait, after the wait's time. */
static void *help(void *scenario)
{
	const struct scenario *s = scenario;
	struct timespec pause = { .tv_nsec = set.ns };

	pin(set.helper);
	prctl(PR_SET_TIMERSLACK, 1);
	shared->helper = syscall(SYS_gettid);
	for (unsigned seen = 0;; seen++) {
		while (shared->armed == seen)
			if (shared->done)
				return NULL;
		if (s->sleepy)
			nanosleep(&pause, NULL);
		else if (!s->process) /* process helpers spend the time in wake */
			spin(set.ns);
		s->wake();
		shared->released = seen + 1;
	}
}

static void start_helper(const struct scenario *s)
{
	pthread_t thread;
	pid_t child;

	if (s->process) {
		child = fork();
		must(child >= 0, "fork");
		if (child > 0) {
			victim = child;
			help((void *)s);
			waitpid(child, NULL, 0);
			exit(0);
		}
		prctl(PR_SET_PDEATHSIG, SIGKILL);
	} else {
		must(!pthread_create(&thread, NULL, help, (void *)s), "pthread_create");
	}
	while (!shared->helper)
		sched_yield();
}

static void option(const char *arg)
{
	const char *value = strchr(arg, '=');

	must(value++ != NULL, arg);
	if (!strncmp(arg, "calls=", 6))
		set.calls = atoi(value);
	else if (!strncmp(arg, "us=", 3))
		set.ns = atoll(value) * 1000;
	else if (!strncmp(arg, "cpu=", 4))
		set.cpu = atoi(value);
	else if (!strncmp(arg, "helper=", 7))
		set.helper = atoi(value);
	else if (!strncmp(arg, "dir=", 4))
		set.dir = value;
	else if (!strncmp(arg, "witness=", 8))
		set.witness = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, atoi(value), 0);
	else if (!strncmp(arg, "stat=", 5))
		set.stat = value;
	else if (!strncmp(arg, "hog=", 4) && set.hogs < MAX_HOGS)
		must(!clock_getcpuclockid(atoi(value), &set.hog[set.hogs++]), arg);
	else
		must(0, arg);
}

static void open_clocks(void)
{
	schedstat = open("/proc/thread-self/schedstat", O_RDONLY);
	must(schedstat >= 0, "schedstat");
	if (set.stat) {
		cpustat = open(set.stat, O_RDONLY);
		must(cpustat >= 0, set.stat);
	}
	prctl(PR_SET_TIMERSLACK, 1);
	records = calloc(set.calls * 2, sizeof(*records));
	must(records != NULL, "memory");
	memset(records, 1, set.calls * 2 * sizeof(*records)); /* avoids later page faults */
}

int main(int argc, char **argv)
{
	const struct scenario *s = scenarios;

	must(argc > 1, "which scenario?");
	while (s->name && strcmp(s->name, argv[1]))
		s++;
	must(s->name != NULL, argv[1]);
	for (int i = 2; i < argc; i++)
		option(argv[i]);
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	must(shared != MAP_FAILED, "mmap");
	if (s->wake)
		start_helper(s);
	pin(set.cpu);
	open_clocks();
	if (s->setup)
		s->setup();
	printf("ready %d %d\n", getpid(), shared->helper);
	fflush(stdout);
	getchar();
	if (set.witness)
		set.witness[0] = syscall(SYS_gettid);
	for (turn = 0; turn < set.calls; turn++) {
		if (s->between && turn)
			s->between();
		traced(0, s->body);
	}
	shared->done = 1;
	print_records();
	return 0;
}
