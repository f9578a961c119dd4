// SPDX-License-Identifier: Apache-2.0
/*
 * The victims of the incident lab. Each of its threads and processes repeats a script:
 *
 *   victim log=FILE [pin=CPU] [seconds=N] [depth=N] [dir=DIR] [port=N] main=SCRIPT
 *          [thread=SCRIPT]... [worker=SCRIPT]...
 *
 * A script is a list of operations separated by ";": "copy 65536; launch 10 500; sync; cpu 200".
 * An operation with "!" runs only while the fault is on, one with "~" only while it is off, and
 * "@50 OP" runs every 50th time. FILE gets the length of each step of main by the victim's own
 * clock. The victim prints "ready PID", and starts with the next line on its input.
 */
#include "victim.h"
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <time.h>

struct step_log *victim_log;
int batches[2];
const char *dir = ".";
long port;

static struct actor actors[MAX_ACTORS];
static char kinds[MAX_ACTORS];
static int n_actors;
static int64_t deadline;

void need(int ok, const char *what)
{
	if (ok)
		return;
	fprintf(stderr, "victim: %s: %s\n", what, strerror(errno));
	exit(1);
}

int64_t wall_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	return t.tv_sec * 1000000000L + t.tv_nsec;
}

int64_t cpu_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return t.tv_sec * 1000000000L + t.tv_nsec;
}

/* Uses us microseconds of CPU time. */
void burn(long us)
{
	int64_t until = cpu_ns() + us * 1000;

	while (cpu_ns() < until)
		for (volatile int i = 0; i < 200; i++)
			;
}

static const struct op *find(const char *name)
{
	for (const struct op *o = host_ops; o->name; o++)
		if (!strcmp(o->name, name))
			return o;
	for (const struct op *o = cuda_ops; o->name; o++)
		if (!strcmp(o->name, name))
			return o;
	for (const struct op *o = nccl_ops; o->name; o++)
		if (!strcmp(o->name, name))
			return o;
	fprintf(stderr, "victim: no operation %s\n", name);
	exit(2);
}

/* Returns an actor's index among main and those workers whose script has an operation. */
int rank_of(const struct actor *a, const char *op, int *ranks)
{
	int rank = 0;

	*ranks = 0;
	for (int i = 0; i < n_actors; i++)
		for (int k = 0; k < actors[i].n; k++)
			if (kinds[i] != 't' && !strcmp(actors[i].ops[k].op->name, op)) {
				if (&actors[i] == a)
					rank = *ranks;
				++*ranks;
				break;
			}
	return rank;
}

static void parse_op(struct actor *a, char *text)
{
	struct op_call *c = &a->ops[a->n];
	char *save, *word = strtok_r(text, " ", &save);

	if (!word)
		return;
	need(a->n < MAX_OPS, "a script is too long");
	c->every = 1;
	if (*word == '!' || *word == '~')
		c->when = *word++;
	if (*word == '@') {
		c->every = atol(word + 1);
		word = strtok_r(NULL, " ", &save);
	}
	c->op = find(word);
	for (int i = 0; i < ARGS && (word = strtok_r(NULL, " ", &save)); i++)
		c->arg[i] = atol(word);
	a->n++;
}

static void parse(char kind, char *script)
{
	struct actor *a = &actors[n_actors];
	char *save;

	need(n_actors < MAX_ACTORS, "too many scripts");
	kinds[n_actors++] = kind;
	a->main = kind == 'm';
	a->saved = a->direct = a->cached = a->socket = -1;
	for (char *op = strtok_r(script, ";", &save); op; op = strtok_r(NULL, ";", &save))
		parse_op(a, op);
}

static void step(struct actor *a)
{
	uint64_t kind = 0, n = a->steps++;
	int64_t begin = wall_ns();
	int on = atomic_load(&victim_log->mode) & 1;

	for (int i = 0; i < a->n; i++) {
		struct op_call *c = &a->ops[i];

		if (c->when == '!' ? !on : c->when == '~' && on)
			continue;
		if (c->every > 1 && (long)(n % c->every) != c->every - 1)
			continue;
		if (c->every > 1 && c->when != '!')
			kind |= 1ull << i;
		c->op->run(a, c->arg);
	}
	n = atomic_load(&victim_log->count);
	if (a->main && n < MAX_STEPS) {
		victim_log->step[n].begin = begin;
		victim_log->step[n].end = wall_ns();
		victim_log->step[n].kind = kind;
		atomic_store(&victim_log->count, n + 1);
	}
}

static void *act(void *arg)
{
	while (!deadline || wall_ns() < deadline)
		step(arg);
	return NULL;
}

static void open_log(const char *path)
{
	int fd = open(path, O_RDWR);

	need(fd >= 0, path);
	victim_log = mmap(NULL, sizeof(*victim_log), PROT_READ | PROT_WRITE,
			  MAP_SHARED | MAP_POPULATE, fd, 0);
	need(victim_log != MAP_FAILED, "map the log");
	close(fd);
}

static void pin(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	for (int i = 0; i < CPU_SETSIZE; i++)
		if (i == cpu || cpu < 0)
			CPU_SET(i, &set);
	need(!sched_setaffinity(0, sizeof(set), &set), "pin");
}

static void begin_actor(int i, int *pids)
{
	pthread_t t;
	int pid;

	if (kinds[i] == 't')
		need(!pthread_create(&t, NULL, act, &actors[i]), "start a thread");
	if (kinds[i] != 'w')
		return;
	pid = fork();
	need(pid >= 0, "fork");
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		prctl(PR_SET_NAME, "worker");
		act(&actors[i]);
		_exit(0);
	}
	victim_log->pids[++*pids] = pid;
}

static void option(char *arg, long *seconds, long *depth)
{
	char *value = strchr(arg, '=');

	need(value != NULL, arg);
	*value++ = 0;
	if (!strcmp(arg, "log"))
		open_log(value);
	else if (!strcmp(arg, "pin"))
		pin(atoi(value));
	else if (!strcmp(arg, "seconds"))
		*seconds = atol(value);
	else if (!strcmp(arg, "depth"))
		*depth = atol(value);
	else if (!strcmp(arg, "dir"))
		dir = value;
	else if (!strcmp(arg, "port"))
		port = atol(value);
	else
		parse(*arg, value);
}

int main(int argc, char **argv)
{
	long seconds = 60, depth = 1;
	int pids = 0;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	pin(-1);
	signal(SIGPIPE, SIG_IGN);
	for (int i = 1; i < argc; i++)
		option(argv[i], &seconds, &depth);
	need(victim_log != NULL && n_actors > 0, "arguments");
	need(!pipe(batches), "pipe");
	fcntl(batches[0], F_SETPIPE_SZ, (int)depth * TOKEN);
	victim_log->pids[0] = getpid();
	printf("ready %d\n", getpid());
	fflush(stdout);
	while (getchar() != '\n')
		;
	deadline = wall_ns() + seconds * 1000000000L;
	for (int i = 0; i < n_actors; i++)
		if (kinds[i] == 'w')
			begin_actor(i, &pids);
	cuda_begin();
	for (int i = 0; i < n_actors; i++)
		if (kinds[i] == 't')
			begin_actor(i, &pids);
	for (int i = 0; i < n_actors; i++)
		if (kinds[i] == 'm')
			act(&actors[i]);
	return 0;
}
