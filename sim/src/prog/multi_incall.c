/* SPDX-License-Identifier: Apache-2.0 */
/* Cases inside a call: the simulated driver's hook runs them within cudaStreamSynchronize
 * and within cuStreamSynchronize, two frames deep. */
#include "multi.h"

typedef long jump_buffer[64]; /* at least as large as any C library's */

int _setjmp(long *env) __attribute__((returns_twice));
void longjmp(long *env, int value) __attribute__((noreturn));
int __sigsetjmp(long *env, int save_mask) __attribute__((returns_twice));
void siglongjmp(long *env, int value) __attribute__((noreturn));

struct sigaction {
	void (*handler)(int);
	u64 mask[16];
	int flags;
	void (*restorer)(void);
};

struct stack {
	void *sp;
	int flags;
	size_t size;
};

int sigaction(int sig, const struct sigaction *act, struct sigaction *old);
int sigaltstack(const struct stack *ss, struct stack *old);

static jump_buffer jump;
static int child_pid, inside;
static u64 level;

/* Runs what() once inside the next call of cudaStreamSynchronize. */
static void (*what)(void);

static void hook(const char *op)
{
	if (inside || strcmp(op, "cuStreamSynchronize"))
		return;
	inside = 1;
	what();
	inside = 0;
}

static void in_call(void (*fn)(void))
{
	what = fn;
	check("simSetCallHook", simSetCallHook(hook));
}

static void do_fork(void)
{
	child_pid = fork();
}

/* The child returns from the call as well, with error 3, and exits. */
int fork_in_call(void)
{
	in_call(do_fork);
	for (u64 i = 0; i < count; i++) {
		int err = synchronize();

		if (!child_pid)
			_exit(err == 3 ? 0 : 1);
		reap(child_pid, 0);
	}
	return 0;
}

static void do_exec(void)
{
	char left[24];
	char *again[] = { self_path, "--case", "exec-in-call", "--count", left, NULL };
	char *last[] = { self_path, "--case", "plain", "--count", "10", NULL };

	snprintf(left, sizeof(left), "%llu", (unsigned long long)(count - 1));
	execv(self_path, count > 1 ? again : last);
	die("execv", 1);
}

/* The process replaces itself count times, each time in a call, then runs the plain case. */
int exec_in_call(void)
{
	in_call(do_exec);
	synchronize();
	return 1;
}

static void do_longjmp(void)
{
	inside = 0;
	longjmp(jump, 1);
}

/* Leaves every call by a jump; a plain call follows each. */
int longjmp_out(void)
{
	for (volatile u64 i = 0; i < count; i++) {
		in_call(do_longjmp);
		if (!_setjmp(jump))
			synchronize();
		check("simSetCallHook", simSetCallHook(NULL));
		synchronize();
	}
	return 0;
}

static void do_raise(void)
{
	raise(SIGUSR1);
}

static void handle(void (*fn)(int), int flags)
{
	struct sigaction sa = { 0 };

	sa.handler = fn;
	sa.flags = flags;
	check("sigaction", sigaction(SIGUSR1, &sa, NULL));
}

static void jump_out(int sig)
{
	(void)sig;
	inside = 0;
	siglongjmp(jump, 1);
}

int siglongjmp_out(void)
{
	handle(jump_out, 0);
	for (volatile u64 i = 0; i < count; i++) {
		in_call(do_raise);
		if (!__sigsetjmp(jump, 1))
			synchronize();
		check("simSetCallHook", simSetCallHook(NULL));
		synchronize();
	}
	return 0;
}

/* Makes one CUDA call inside the open call. */
static void call_inside(int sig)
{
	(void)sig;
	add(&tally.inner, 1);
	if (cudaStreamQuery(NULL))
		add(&tally.errors, 1);
}

int signal_in_call(void)
{
	handle(call_inside, 0);
	in_call(do_raise);
	for (u64 i = 0; i < count; i++)
		synchronize();
	return tally.inner != count;
}

int altstack(void)
{
	struct stack ss = { malloc(262144), 0, 262144 };

	check("sigaltstack", sigaltstack(&ss, NULL));
	handle(call_inside, SA_ONSTACK);
	in_call(do_raise);
	for (u64 i = 0; i < count; i++)
		synchronize();
	return tally.inner != count;
}

static void do_nest(void)
{
	if (level >= depth)
		return;
	level++;
	inside = 0;
	add(&tally.inner, 1);
	synchronize();
	level--;
}

/* Makes depth calls inside each outermost call. */
int nest(void)
{
	in_call(do_nest);
	for (u64 i = 0; i < count; i++)
		synchronize();
	return tally.inner != count * depth;
}

static void *body(void *arg)
{
	(void)arg;
	synchronize();
	return NULL;
}

static int threads_that(void (*fn)(void))
{
	in_call(fn);
	for (u64 i = 0; i < count; i++) {
		pthread_t t;

		inside = 0;
		check("pthread_create", pthread_create(&t, NULL, body, NULL));
		pthread_join(t, NULL);
	}
	return tally.entered - tally.returned != count;
}

static void do_thread_exit(void)
{
	syscall(SYS_exit, 0);
}

int thread_exit(void)
{
	return threads_that(do_thread_exit);
}

static void do_pthread_exit(void)
{
	pthread_exit(NULL);
}

int thread_leave(void)
{
	return threads_that(do_pthread_exit);
}

static void do_sigkill(void)
{
	kill(getpid(), SIGKILL);
}

int sigkill(void)
{
	in_call(do_sigkill);
	synchronize();
	return 1;
}

static void do_hang(void)
{
	dprintf(1, "in-call %d\n", getpid());
	for (;;)
		pause();
}

int hang(void)
{
	in_call(do_hang);
	synchronize();
	return 1;
}
