// A program of the shapes that matter: templates, functions that are put into others,
// anonymous namespaces, lambdas, exceptions, parts that are seldom run.
#include <algorithm>
#include <cstdio>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

namespace gpu
{
template <class T> struct Buffer {
	T scale;
	__attribute__((always_inline)) T twice(T x) { return x * 2 + scale; }
	__attribute__((noinline)) T run(T x)
	{
		for (int i = 0; i < 3; i++)
			x = twice(x);
		return x;
	}
};
}

namespace
{
__attribute__((noinline)) int hidden(int x)
{
	if (x < -100)
		throw std::runtime_error("far too small: " + std::to_string(x));
	return x * x + printf("%d\n", x);
}
inline int square(int x) { return hidden(x) + x; }
}

struct Base {
	virtual ~Base() {}
	virtual int go(int n) = 0;
};

struct Derived : Base {
	int go(int n) override
	{
		std::map<std::string, int> m;
		for (int i = 0; i < n; i++)
			m[std::to_string(i)] += square(i);
		return m.size();
	}
};

extern "C" int plain(int x)
{
	return square(x) + 1;
}

int main(int argc, char **argv)
{
	gpu::Buffer<double> a{1};
	gpu::Buffer<int> b{2};
	std::vector<int> x;
	for (int i = 0; i < argc * 10; i++)
		x.push_back(square(i) + b.run(i));
	std::sort(x.begin(), x.end(), [](int l, int r) { return square(l) < square(r); });
	try {
		Base *d = new Derived;
		printf("%d %f\n", d->go(argc), a.run(argc));
		delete d;
	} catch (const std::exception &e) {
		puts(e.what());
	}
	return plain(argc);
}
