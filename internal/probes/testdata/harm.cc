// SPDX-License-Identifier: Apache-2.0
// Leaves traced calls in every way, and prints "alive" if it survives.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <pthread.h>
#include <setjmp.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern "C" {
int cudaStreamSynchronize(void (*leave)(void));
int cudaLaunchHostFunc(void *stream, void (*fn)(void *), void *data);
int cudaDeviceSynchronize(void);
int cudaEventSynchronize(void *event);
extern int stub_result;
}

static jmp_buf back;
static pid_t child;
static const char *self;

static void calls(int n)
{
	for (int i = 0; i < n; i++)
		cudaStreamSynchronize(nullptr);
}

static void jump()
{
	longjmp(back, 1);
}
static void jump_after_a_call()
{
	cudaEventSynchronize(nullptr);
	longjmp(back, 1);
}
static void fork_here()
{
	child = fork();
}
static void exec_here()
{
	execl(self, self, "calls", "--started", nullptr);
}
static void thread_exit()
{
	pthread_exit(nullptr);
}
static void thread_gone()
{
	syscall(SYS_exit, 0);
}
static void hang()
{
	puts("inside");
	for (;;)
		pause();
}
static void wait_for_a_line()
{
	puts("inside");
	getchar();
}
static void jump_after_a_line()
{
	wait_for_a_line();
	calls(1);
	longjmp(back, 1);
}
static void around_a_jump()
{
	if (!setjmp(back))
		cudaStreamSynchronize(jump_after_a_line);
}
static void work() // 200 us
{
	struct timespec a, b;
	clock_gettime(CLOCK_MONOTONIC, &a);
	do
		clock_gettime(CLOCK_MONOTONIC, &b);
	while ((b.tv_sec - a.tv_sec) * 1000000000L + b.tv_nsec - a.tv_nsec < 200000);
}
static void nothing(void *)
{
}
static void throw_here(void *)
{
	throw 7;
}

static void *in_thread(void *leave)
{
	cudaStreamSynchronize((void (*)(void))leave);
	return nullptr;
}

static void with_thread(void (*leave)())
{
	for (int i = 0; i < 10; i++) {
		pthread_t t;
		pthread_create(&t, nullptr, in_thread, (void *)leave);
		pthread_join(t, nullptr);
	}
}

// Allows the system calls for printing and exiting, and kills on all others.
static void restrict_calls()
{
	struct sock_filter f[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_write, 3, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit_group, 2, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_newfstatat, 1, 0),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog p = { sizeof(f) / sizeof(f[0]), f };
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &p))
		abort();
}

int main(int argc, char **argv)
{
	self = argv[0];
	const char *mode = argv[1];
	setvbuf(stdout, nullptr, _IOLBF, 0);
	if (argc < 3) {
		puts("ready");
		getchar();
	}
	if (!strcmp(mode, "calls"))
		calls(100);
	else if (!strncmp(mode, "fast=", 5))
		calls(atoi(mode + 5));
	else if (!strncmp(mode, "failing=", 8)) {
		stub_result = 1;
		calls(atoi(mode + 8));
	} else if (!strcmp(mode, "rounds")) { // a hundred calls for each input line
		do {
			for (int i = 0; i < 100; i++)
				cudaLaunchHostFunc(nullptr, nothing, nullptr);
			puts("called");
		} while (getchar() == '\n');
	} else if (!strcmp(mode, "syncs")) { // likewise, other calls
		do {
			calls(100);
			puts("called");
		} while (getchar() == '\n');
	} else if (!strncmp(mode, "pressure=", 9)) // one in a hundred fails, one is slow
		for (int i = 0; i < atoi(mode + 9); i++) {
			stub_result = i % 100 == 50;
			cudaStreamSynchronize(i % 100 == 70 ? work : nullptr);
			stub_result = 0;
		}
	else if (!strcmp(mode, "longjmp"))
		for (volatile int i = 0; i < 100; i++) {
			if (!setjmp(back))
				cudaStreamSynchronize(jump);
			calls(1);
		}
	else if (!strcmp(mode, "longjmp-gap")) { // asleep, then out of a call with one inside it
		calls(1);
		usleep(5000);
		if (!setjmp(back))
			cudaStreamSynchronize(jump_after_a_call);
		calls(1);
	} else if (!strcmp(mode,
			   "longjmp-inside")) // out of a call with one inside it, into another
		cudaStreamSynchronize(around_a_jump);
	else if (
		!strcmp(mode,
			"longjmp-loop")) // the abandoned call and the next have the same stack pointer
		for (volatile int i = 0; i < 100; i++) {
			volatile int first = !setjmp(back);
			cudaStreamSynchronize(first ? jump : nullptr);
		}
	else if (!strcmp(mode, "fork")) {
		cudaStreamSynchronize(fork_here);
		calls(10);
		if (child == 0)
			_exit(0);
		int status;
		waitpid(child, &status, 0);
		if (status)
			return 1;
	} else if (!strcmp(mode, "exec"))
		cudaStreamSynchronize(exec_here);
	else if (!strcmp(mode, "pthread_exit"))
		with_thread(thread_exit);
	else if (!strcmp(mode, "thread_gone"))
		with_thread(thread_gone);
	else if (!strcmp(mode, "hang"))
		cudaStreamSynchronize(hang);
	else if (!strcmp(mode, "held")) // from one place
		for (volatile int i = 0; i < 6; i++)
			cudaStreamSynchronize(i % 3 == 0 ? wait_for_a_line : nullptr);
	else if (!strcmp(mode, "tail"))
		for (int i = 0; i < 100; i++)
			cudaDeviceSynchronize();
	else if (!strcmp(mode, "throw"))
		for (int i = 0; i < 100; i++) {
			try {
				cudaLaunchHostFunc(nullptr, throw_here, nullptr);
			} catch (int) {
			}
			calls(1);
		}
	else if (!strcmp(mode, "seccomp")) {
		restrict_calls();
		calls(100);
	}
	puts("alive");
	fflush(stdout);
	_exit(0);
}
