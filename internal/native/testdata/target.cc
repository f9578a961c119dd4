// A process that stands still where a test can look at its stack: in a signal handler,
// that interrupted a function that was put into another, called through a library.
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <unistd.h>

extern "C" int through(int (*fn)(int), int x);

volatile int sink;

namespace work
{
template <class T> struct Step {
	__attribute__((noinline)) static int rest(T x)
	{
		printf("ready\n");
		fflush(stdout);
		for (;;)
			pause();
		return sink = x;
	}
};

inline __attribute__((always_inline)) int divide(int x)
{
	sink = x;
	raise(SIGUSR1);
	return sink + 1;
}

inline __attribute__((always_inline)) int twice(int x)
{
	int a = divide(x);
	sink = a;
	return a + sink;
}

__attribute__((noinline)) int forward(int x)
{
	int a = twice(x);
	sink = a;
	return a * 2;
}
}

extern "C" void handler(int n)
{
	sink = work::Step<long>::rest(n);
	sink++;
}

int main(int argc, char **)
{
	signal(SIGUSR1, handler);
	sink = through(work::forward, argc);
	return sink;
}
