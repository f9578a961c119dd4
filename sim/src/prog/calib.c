/* SPDX-License-Identifier: Apache-2.0 */
/* Calls an empty function many times. It is static and without a C library, so it runs
 * anywhere and makes few system calls. With --seccomp it allows itself only four: a probe
 * that makes the target enter the kernel by another one kills it. */
#include <stddef.h>
#include <stdint.h>

typedef uint64_t u64;

#if defined(__x86_64__)
enum {
	NR_READ = 0,
	NR_WRITE = 1,
	NR_SIGRETURN = 15,
	NR_GETPID = 39,
	NR_EXIT = 60,
	NR_PRCTL = 157,
	NR_CLOCK = 228,
	NR_EXIT_GROUP = 231
};

static long sys(long nr, long a, long b, long c, long d, long e)
{
	register long r10 __asm__("r10") = d, r8 __asm__("r8") = e;
	long r;

	__asm__ volatile("syscall"
			 : "=a"(r)
			 : "a"(nr), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8)
			 : "rcx", "r11", "memory");
	return r;
}

__asm__(".globl _start\n_start:\n\txor %ebp, %ebp\n\tmov %rsp, %rdi\n\tand $-16, %rsp\n\tcall "
	"calib_main\n\thlt\n");
#else
enum {
	NR_READ = 63,
	NR_WRITE = 64,
	NR_SIGRETURN = 139,
	NR_GETPID = 172,
	NR_EXIT = 93,
	NR_PRCTL = 167,
	NR_CLOCK = 113,
	NR_EXIT_GROUP = 94
};

static long sys(long nr, long a, long b, long c, long d, long e)
{
	register long x8 __asm__("x8") = nr, x0 __asm__("x0") = a, x1 __asm__("x1") = b,
			 x2 __asm__("x2") = c;
	register long x3 __asm__("x3") = d, x4 __asm__("x4") = e;

	__asm__ volatile("svc #0"
			 : "+r"(x0)
			 : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4)
			 : "memory");
	return x0;
}

__asm__(".globl _start\n_start:\n\tmov x29, #0\n\tmov x30, #0\n\tmov x0, sp\n\tbl "
	"calib_main\n\tbrk #0\n");
#endif

void ingero_calib_push(void);
void ingero_calib_stepped(void);
void ingero_calib_stub(void);

static const struct {
	const char *name;
	void (*fn)(void);
} functions[] = {
	{ "push", ingero_calib_push },
	{ "stepped", ingero_calib_stepped },
	{ "stub", ingero_calib_stub },
};

static char out[512];
static size_t used;

static void text(const char *s)
{
	while (*s && used < sizeof(out))
		out[used++] = *s++;
}

static void number(u64 v)
{
	char digits[24];
	int n = 0;

	do
		digits[n++] = (char)('0' + v % 10);
	while (v /= 10);
	while (n)
		if (used < sizeof(out))
			out[used++] = digits[--n];
		else
			n--;
}

static void flush(int fd)
{
	sys(NR_WRITE, fd, (long)out, (long)used, 0, 0);
	used = 0;
}

static void leave(int status)
{
	for (;;)
		sys(NR_EXIT_GROUP, status, 0, 0, 0, 0);
}

static int same(const char *a, const char *b)
{
	while (*a && *a == *b)
		a++, b++;
	return *a == *b;
}

static u64 parse(const char *s)
{
	u64 v = 0;

	while (*s >= '0' && *s <= '9')
		v = v * 10 + (u64)(*s++ - '0');
	return v;
}

static u64 now(void)
{
	u64 ts[2] = { 0, 0 };

	sys(NR_CLOCK, 1, (long)ts, 0, 0, 0);
	return ts[0] * 1000000000ull + ts[1];
}

struct filter_insn {
	uint16_t code;
	uint8_t jt, jf;
	uint32_t k;
};

/* Allows write, exit, exit_group and rt_sigreturn; anything else kills the process. */
static void forbid(void)
{
	static const struct filter_insn insns[] = {
		{ 0x20, 0, 0, 0 }, /* load the system call number */
		{ 0x15, 4, 0, NR_WRITE },
		{ 0x15, 3, 0, NR_EXIT },
		{ 0x15, 2, 0, NR_EXIT_GROUP },
		{ 0x15, 1, 0, NR_SIGRETURN },
		{ 0x06, 0, 0, 0x80000000u },
		{ 0x06, 0, 0, 0x7fff0000u },
	};
	struct {
		unsigned short len;
		const struct filter_insn *insns;
	} prog = { sizeof(insns) / sizeof(insns[0]), insns };

	if (sys(NR_PRCTL, 38, 1, 0, 0, 0) || sys(NR_PRCTL, 22, 2, (long)&prog, 0, 0)) {
		text("calib: no seccomp filter here\n");
		flush(2);
		leave(3);
	}
}

static void usage(int fd, int status)
{
	text("usage: calib push|stepped|stub N [--batches B] [--seccomp]\n"
	     "Prints \"ready PID\", waits for a byte on stdin, calls ingero_calib_... N times in\n"
	     "each of B batches (1), and prints a JSON line with the best and the median batch in\n"
	     "picoseconds a call (none with --seccomp: it may not ask for the time).\n");
	flush(fd);
	leave(status);
}

static u64 times[256];

static void sort(u64 *v, u64 n)
{
	for (u64 i = 1; i < n; i++)
		for (u64 j = i; j && v[j] < v[j - 1]; j--) {
			u64 t = v[j];

			v[j] = v[j - 1];
			v[j - 1] = t;
		}
}

static void run(void (*fn)(void), u64 n, u64 batches, int timed)
{
	for (u64 b = 0; b < batches; b++) {
		u64 t = timed ? now() : 0;

		for (u64 i = 0; i < n; i++) {
			fn();
			__asm__ volatile("" ::: "memory");
		}
		if (timed && n)
			times[b] = (now() - t) * 1000 / n;
	}
}

__attribute__((used)) void calib_main(long *sp)
{
	long argc = sp[0];
	char **argv = (char **)(sp + 1);
	u64 n, batches = 1;
	int seccomp = 0, which = -1;
	char byte;

	if (argc > 1 && same(argv[1], "--help"))
		usage(1, 0);
	if (argc < 3)
		usage(2, 2);
	for (int i = 0; i < 3; i++)
		if (same(argv[1], functions[i].name))
			which = i;
	n = parse(argv[2]);
	for (long i = 3; i < argc; i++)
		if (same(argv[i], "--seccomp"))
			seccomp = 1;
		else if (same(argv[i], "--batches") && i + 1 < argc)
			batches = parse(argv[++i]);
		else
			usage(2, 2);
	if (which < 0 || !batches || batches > sizeof(times) / sizeof(times[0]))
		usage(2, 2);
	text("ready ");
	number((u64)sys(NR_GETPID, 0, 0, 0, 0, 0));
	text("\n");
	flush(1);
	sys(NR_READ, 0, (long)&byte, 1, 0, 0);
	if (seccomp)
		forbid();
	run(functions[which].fn, n, batches, !seccomp);
	sort(times, batches);
	text("{\"program\":\"calib\",\"function\":\"ingero_calib_");
	text(functions[which].name);
	text("\",\"calls\":");
	number(n * batches);
	if (!seccomp) {
		text(",\"best_ps\":");
		number(times[0]);
		text(",\"median_ps\":");
		number(times[batches / 2]);
	}
	text("}\n");
	flush(1);
	leave(0);
}
