// A library between a program's functions.
static __attribute__((noinline)) int hidden(int (*fn)(int), int x)
{
	int a = fn(x);
	__asm__ volatile("" : "+r"(a));
	return a + 1;
}

__attribute__((noinline)) int through(int (*fn)(int), int x)
{
	int a = hidden(fn, x);
	__asm__ volatile("" : "+r"(a));
	return a + 1;
}
