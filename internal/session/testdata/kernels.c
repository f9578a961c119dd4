// SPDX-License-Identifier: Apache-2.0
/*
 * Launches GPU kernels: `kernels DIR STEP...` loads the libraries of DIR, then runs the
 * steps in order:
 * register     registers three kernels with the runtime, one with a name of 3,000 bytes
 * unregister   unregisters them
 * again        registers the first with another name
 * launch       launches each of the three 100 times
 * get          gets a handle of the first kernel, and launches it 100 times
 * module       gets two functions of a module, by names on the stack, and launches each
 *              100 times
 * more         launches the second 100 times more
 * swap         unloads the module and gets another function of another module, until a
 *              handle is reused; launches it 100 times
 * fork         runs the remaining steps in a child
 * exec         runs the remaining steps in a new program
 * wait         waits for a line
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

struct dim3 {
	unsigned x, y, z;
};

#define HOST(name, symbol)                                                                         \
	__attribute__((visibility("default"), noinline)) void name(void) __asm__(symbol);          \
	void name(void)                                                                            \
	{                                                                                          \
		__asm__ volatile("" ::: "memory");                                                 \
		fputs(symbol, stderr);                                                             \
	}

/* As clang and nvcc name the host functions of kernels. */
HOST(add, "_ZN3gpu18__device_stub__addIfEEvPT_i")
HOST(scale, "_Z5scalePfi")
HOST(plain, "plain_kernel")

static char long_name[3001];
static void *rt, *cu;

#define RT(name) ((name##_t)dlsym(rt, #name))
typedef int (*cudaLaunchKernel_t)(const void *, struct dim3, struct dim3, void **, size_t, void *);
typedef void (*__cudaRegisterFunction_t)(void **, const void *, char *, const char *, int, void *,
					 void *, void *, void *, int *);
typedef void **(*__cudaRegisterFatBinary_t)(void *);
typedef void (*__cudaUnregisterFatBinary_t)(void **);
typedef int (*__cudaGetKernel_t)(void **, const void *);

static void **fat;
static void *module, *last;

static void check(const char *what, int err)
{
	if (err) {
		fprintf(stderr, "%s: %d\n", what, err);
		exit(1);
	}
}

static void reg(void *host, const char *name)
{
	RT(__cudaRegisterFunction)(fat, host, (char *)name, name, -1, 0, 0, 0, 0, 0);
}

static void launch(void *f)
{
	struct dim3 one = { 1, 1, 1 };

	cudaLaunchKernel_t launch_ = RT(cudaLaunchKernel);

	for (int i = 0; i < 100; i++)
		check("launch", launch_(f, one, one, 0, 0, 0));
}

static void *function(const char *name)
{
	char here[64];
	void *f;

	strcpy(here, name);
	check(name, ((int (*)(void **, void *, const char *))dlsym(cu, "cuModuleGetFunction"))(
			    &f, module, here));
	memset(here, 'x', sizeof(here) - 1);
	return f;
}

static void load(void)
{
	check("load", ((int (*)(void **, const void *))dlsym(cu, "cuModuleLoadData"))(&module,
										      "simulated"));
}

static void drive(void *f)
{
	int (*launch_)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
		       void *, void **, void **) = dlsym(cu, "cuLaunchKernel");

	for (int i = 0; i < 100; i++)
		check("cuLaunchKernel", launch_(f, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0));
}

static void context(void)
{
	void *ctx;

	check("cuInit", ((int (*)(unsigned))dlsym(cu, "cuInit"))(0));
	check("retain", ((int (*)(void **, int))dlsym(cu, "cuDevicePrimaryCtxRetain"))(&ctx, 0));
	check("current", ((int (*)(void *))dlsym(cu, "cuCtxSetCurrent"))(ctx));
}

static void swap(void)
{
	char name[64];
	void *f = 0;

	for (int i = 0; i < 10000 && f != last; i++) {
		check("unload", ((int (*)(void *))dlsym(cu, "cuModuleUnload"))(module));
		load();
		snprintf(name, sizeof(name), "_Z7swappedv");
		f = function(name);
	}
	if (f != last)
		fprintf(stderr, "no handle came again\n");
	drive(f);
}

static void step(const char *s, char **argv, char ***rest)
{
	if (!strcmp(s, "register")) {
		fat = RT(__cudaRegisterFatBinary)("simulated");
		reg(add, "_ZN3gpu3addIfEEvPT_i");
		reg(scale, "_Z5scalePfi");
		reg(plain, long_name);
	} else if (!strcmp(s, "unregister")) {
		RT(__cudaUnregisterFatBinary)(fat);
	} else if (!strcmp(s, "again")) {
		fat = RT(__cudaRegisterFatBinary)("simulated");
		reg(add, "_Z5againv");
		launch(add);
	} else if (!strcmp(s, "launch")) {
		launch(add);
		launch(scale);
		launch(plain);
	} else if (!strcmp(s, "get")) {
		void *k;

		check("get", RT(__cudaGetKernel)(&k, add));
		launch(k);
	} else if (!strcmp(s, "module")) {
		context();
		load();
		drive(function("_Z6jittedILi4EEvv"));
		drive(last = function("triton_poi_fused_0"));
	} else if (!strcmp(s, "more")) {
		drive(last);
	} else if (!strcmp(s, "swap")) {
		swap();
	} else if (!strcmp(s, "fork")) {
		if (fork()) {
			wait(0);
			exit(0);
		}
	} else if (!strcmp(s, "exec")) {
		char **all = malloc(100 * sizeof(*all));
		int n = 2;

		all[0] = argv[0];
		all[1] = argv[1];
		while ((all[n] = *(*rest)++))
			n++;
		execv("/proc/self/exe", all);
		exit(1);
	} else if (!strcmp(s, "wait")) {
		printf("ready %d\n", getpid());
		fflush(stdout);
		while (getchar() > '\n')
			;
	} else {
		exit(2);
	}
}

int main(int argc, char **argv)
{
	char path[4096], **s = argv + 2;

	(void)argc;
	memset(long_name, 'l', sizeof(long_name) - 1);
	snprintf(path, sizeof(path), "%s/libcuda.so.1", argv[1]);
	cu = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
	snprintf(path, sizeof(path), "%s/libcudart.so.12", argv[1]);
	rt = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
	if (!cu || !rt) {
		fprintf(stderr, "%s\n", dlerror());
		return 1;
	}
	while (*s) {
		char *now = *s++;

		step(now, argv, &s);
	}
	return 0;
}
