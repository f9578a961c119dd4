/* SPDX-License-Identifier: Apache-2.0 */
/* Events inside a CUDA call: fork, exec, jumps, signals, the end of the thread or the
 * process. Each case is one function; the program prints its calls and their results as
 * JSON. */
#include "prog.h"
#include "multi.h"

static const char *wanted = "plain";
u64 count = 10, before = 3, depth = 3;
char *self_path;
static u64 hold, tell;

static const struct option opts[] = {
	{ "case", 's', &wanted, "what happens (see above; plain)" },
	{ "count", 'n', &count, "how often (10)" },
	{ "before", 'n', &before, "plain synchronise calls before it (3)" },
	{ "depth", 'n', &depth, "calls inside each other, for nest (3)" },
	{ "tell", 'f', &tell, "children of storms print this line, too" },
	{ "hold", 'f', &hold,
	  "print \"ready PID\" and wait for a line before the first CUDA call" },
};

struct tally tally;

void add(u64 *n, u64 v)
{
	__atomic_add_fetch(n, v, __ATOMIC_RELAXED);
}

/* Calls cudaStreamSynchronize once and counts the result. */
int synchronize(void)
{
	int err;

	add(&tally.entered, 1);
	err = cudaStreamSynchronize(NULL);
	add(&tally.returned, 1);
	if (err) {
		add(&tally.errors, 1);
		tally.last_error = err;
	}
	return err;
}

void report(const char *who)
{
	printf("{\"program\":\"%s\",\"case\":\"%s\",\"pid\":%d,\"entered\":%llu,\"returned\":%llu,"
	       "\"errors\":%llu,"
	       "\"last_error\":%d,\"children\":%llu,\"children_failed\":%llu,\"inner\":%llu}\n",
	       who, wanted, getpid(), (unsigned long long)tally.entered,
	       (unsigned long long)tally.returned, (unsigned long long)tally.errors,
	       tally.last_error, (unsigned long long)tally.children,
	       (unsigned long long)tally.children_failed, (unsigned long long)tally.inner);
	fflush(NULL);
}

/* Waits for one child; fails unless the child's exit status is want. */
void reap(int pid, int want)
{
	int status = 0;

	if (pid < 0)
		die("fork", 1);
	tally.children++;
	if (waitpid(pid, &status, 0) != pid || status != want)
		tally.children_failed++;
}

static int plain(void)
{
	for (u64 i = 0; i < count; i++)
		synchronize();
	return 0;
}

/* CUDA in a forked child is an error. */
static int fork_rule(void)
{
	synchronize();
	for (u64 i = 0; i < count; i++) {
		int pid = fork();

		if (!pid)
			_exit(synchronize() == 3 && cudaGetLastError() == 3 ? 0 : 1);
		reap(pid, 0);
	}
	return 0;
}

/* Each child starts CUDA for itself; the parent never does. */
static int fork_storm(void)
{
	for (u64 i = 0; i < count; i++) {
		int pid = fork();

		if (!pid) {
			for (u64 k = 0; k < before; k++)
				synchronize();
			if (tell)
				report("multi");
			_exit(tally.errors != 0);
		}
		reap(pid, 0);
	}
	return 0;
}

static int exec_storm(void)
{
	char calls[24];
	char *argv[] = { self_path, "--case", "plain", "--count", calls, "--before", "0", NULL };

	snprintf(calls, sizeof(calls), "%llu", (unsigned long long)before);
	for (u64 i = 0; i < count; i++) {
		int pid = fork();

		if (!pid) {
			if (!tell)
				close(1);
			execv(self_path, argv);
			_exit(127);
		}
		reap(pid, 0);
	}
	return 0;
}

static void *thread_body(void *arg)
{
	(void)arg;
	for (u64 i = 0; i < before; i++)
		synchronize();
	return NULL;
}

static int thread_storm(void)
{
	for (u64 i = 0; i < count; i++) {
		pthread_t t;

		if (pthread_create(&t, NULL, thread_body, NULL))
			die("pthread_create", 1);
		pthread_join(t, NULL);
	}
	return 0;
}

static const struct {
	const char *name;
	int (*run)(void);
	int warm; /* this process first makes plain calls */
} cases[] = {
	{ "plain", plain, 0 },
	{ "fork-rule", fork_rule, 0 },
	{ "misuse", misuse, 0 },
	{ "fork-storm", fork_storm, 0 },
	{ "exec-storm", exec_storm, 0 },
	{ "thread-storm", thread_storm, 0 },
	{ "fork-in-call", fork_in_call, 1 },
	{ "exec-in-call", exec_in_call, 1 },
	{ "longjmp", longjmp_out, 1 },
	{ "siglongjmp", siglongjmp_out, 1 },
	{ "signal", signal_in_call, 1 },
	{ "altstack", altstack, 1 },
	{ "nest", nest, 1 },
	{ "thread-exit", thread_exit, 1 },
	{ "pthread-exit", thread_leave, 1 },
	{ "sigkill", sigkill, 1 },
	{ "hang", hang, 1 },
};

int main(int argc, char **argv)
{
	int failed;

	self_path = argv[0];
	options(argc, argv, opts, ARRAY_SIZE(opts),
		"usage: multi --case CASE [options]\n"
		"  plain         --count calls of cudaStreamSynchronize\n"
		"  fork-rule     children of a process that has used CUDA: their calls fail with "
		"3\n"
		"  misuse        mistakes, one JSON line of the error of each\n"
		"  fork-storm    children that each make --before calls\n"
		"  exec-storm    the same, but each is another program\n"
		"  thread-storm  threads that each make --before calls and end\n"
		"  fork-in-call  fork inside a call: it returns in both processes\n"
		"  exec-in-call  exec inside a call: it never returns\n"
		"  longjmp       longjmp out of a call\n"
		"  siglongjmp    the same out of a signal handler in a call\n"
		"  signal        a signal handler in a call makes a call\n"
		"  altstack      the same on another stack\n"
		"  nest          calls inside calls, --depth deep\n"
		"  thread-exit   a thread ends inside a call, by the system call\n"
		"  pthread-exit  the same by pthread_exit\n"
		"  sigkill       the process is killed inside a call\n"
		"  hang          a call says \"in-call PID\" and never returns\n"
		"Prints one JSON line; entered - returned is what never came back.",
		NULL, 0);
	for (u32 i = 0; i < ARRAY_SIZE(cases); i++) {
		if (strcmp(cases[i].name, wanted))
			continue;
		if (hold)
			hold_for_line();
		for (u64 k = 0; cases[i].warm && k < before; k++)
			synchronize();
		failed = cases[i].run();
		report("multi");
		return failed || tally.children_failed;
	}
	dprintf(2, "multi: no case %s (--help lists all)\n", wanted);
	return 2;
}
