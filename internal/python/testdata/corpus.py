# SPDX-License-Identifier: Apache-2.0
"""Calls a function of the CUDA runtime from all kinds of Python code. Each call is
cuda(here()): here() records the call's stack as sys._getframe returns it."""

import asyncio
import concurrent.futures
import contextlib
import ctypes
import dataclasses
import functools
import gc
import itertools
import json
import multiprocessing
import os
import sys
import threading
import time
import weakref

OUT, LIB, FUNCTION = sys.argv[1:4]
cuda = getattr(ctypes.CDLL(LIB), FUNCTION)
held = getattr(ctypes.PyDLL(LIB), FUNCTION)  # keeps the lock
numbers = itertools.count(1)
files = {}
kept = []


def here():
    stack, f = [], sys._getframe(1)
    while f:
        code = f.f_code
        stack.append([getattr(code, "co_qualname", code.co_name), code.co_filename, f.f_lineno])
        f = f.f_back
    number, pid = next(numbers), os.getpid()
    if pid not in files:
        files[pid] = os.open(f"{OUT}/truth.{pid}", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.write(files[pid], (json.dumps([number, stack]) + "\n").encode())
    return number


def plain():
    cuda(here())
    held(here())
    for _ in range(3):
        x = 1
        cuda(here())
    if x:
        y = [cuda(here()) for _ in range(2)]
    return y


def recursion(n):
    if n == 0:
        cuda(here())
        return 0
    return 1 + recursion(n - 1)


class Model:
    def __init__(self):
        self.layers = [lambda: cuda(here()), self.forward]

    def forward(self):
        cuda(here())

    @property
    def loss(self):
        return cuda(here())

    @staticmethod
    def static():
        cuda(here())

    @classmethod
    def make(cls):
        cuda(here())
        return cls()

    def __call__(self):
        for layer in self.layers:
            layer()

    def __getattr__(self, name):
        cuda(here())
        return name

    def __len__(self):
        cuda(here())
        return 3

    class Inner:
        def run(self):
            def deeper():
                cuda(here())
            deeper()


def classes():
    m = Model.make()
    m()
    m.loss
    m.static()
    m.absent
    len(m)
    Model.Inner().run()

    class Body:
        cuda(here())
        value = 1


def decorated():
    def twice(f):
        @functools.wraps(f)
        def wrapper(*args):
            f(*args)
            return f(*args)
        return wrapper

    @twice
    @twice
    def work(a):
        cuda(here())

    @functools.lru_cache
    def cached(a):
        cuda(here())

    work(1)
    cached(2)
    functools.partial(work, 3)()


def generators():
    def inner():
        cuda(here())
        yield 1
        cuda(here())
        yield 2

    def outer():
        yield from inner()
        cuda(here())

    for _ in outer():
        cuda(here())
    list(outer())
    sum(cuda(here()) and 1 or 1 for _ in range(3))
    next(inner())

    def closing():
        try:
            yield 1
        finally:
            cuda(here())
    g = closing()
    next(g)
    g.close()
    g = closing()
    next(g)
    del g


def coroutines():
    async def leaf(n):
        await asyncio.sleep(0)
        cuda(here())
        return n

    async def produce():
        for i in range(2):
            cuda(here())
            yield i

    async def middle():
        async with contextlib.AsyncExitStack():
            await leaf(1)
        async for _ in produce():
            cuda(here())
        return [x async for x in produce()]

    async def main():
        await middle()
        await asyncio.gather(leaf(1), leaf(2), middle())
        await asyncio.get_running_loop().run_in_executor(None, plain)
        await asyncio.create_task(leaf(3))

    asyncio.run(main())


def from_c():
    def key(x):
        cuda(here())
        return x

    sorted([3, 1, 2], key=key)
    list(map(key, [1, 2]))
    functools.reduce(lambda a, b: key(a), [1, 2, 3])
    json.loads('{"a": {"b": 1}}', object_hook=key)
    callback = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)(lambda a, b: key(0) or 0)
    array = (ctypes.c_int * 2)(2, 1)
    libc = ctypes.CDLL(None)
    libc.qsort(array, 2, 4, callback)
    max([1, 2], key=key)


def generated():
    for i in range(20):  # one after another they may have the same address
        space = {"cuda": cuda, "here": here}
        exec(f"def f{i}():\n" + "\n" * (i % 7) + " return cuda(here())\n", space)
        space[f"f{i}"]()
        eval("cuda(here())", space)
        del space
    code = compile("cuda(here())\n\ncuda(here())", "<made of \u4e2d\u6587 \U0001f40d>", "exec")
    exec(code, {"cuda": cuda, "here": here})

    @dataclasses.dataclass(order=True)
    class Point:
        x: int = dataclasses.field(default_factory=lambda: cuda(here()) and 0 or 0)

        def __post_init__(self):
            cuda(here())
    Point() < Point()


def préparer():
    cuda(here())


class 训练器:
    def 前向(self):
        cuda(here())


def unicode_names():
    préparer()
    训练器().前向()
    exec(compile("def \u0436\u0443\u043a():\n cuda(here())\n\u0436\u0443\u043a()", "/tmp/na\u00efve.py", "exec"),
         {"cuda": cuda, "here": here})


def endings():
    class Buffer:
        def __del__(self):
            cuda(here())

    def holder():
        b = Buffer()
        return 1

    holder()
    list(map(lambda _: holder(), [1]))
    b = Buffer()
    del b
    ring = Buffer()
    ring.self = ring
    del ring
    gc.collect()
    x = Model()
    w = weakref.ref(x, lambda _: cuda(here()))
    del x
    try:
        raise ValueError
    except ValueError:
        cuda(here())
    finally:
        cuda(here())

    @contextlib.contextmanager
    def manager():
        cuda(here())
        yield
        cuda(here())
    with manager():
        cuda(here())
    return w


def threads():
    def work(n):
        for _ in range(5):
            recursion(n)
            held(here())
    ts = [threading.Thread(target=work, args=(i * 3,)) for i in range(8)]
    for t in ts:
        t.start()
    for t in ts:
        t.join()
    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        list(pool.map(recursion, range(6)))
    t = threading.Timer(0, plain)
    t.start()
    t.join()


def long_function():
    space = {"cuda": cuda, "here": here}
    exec(compile("def long():\n" + " x = [1, 2, 3]\n" * 3000 + " cuda(here())\n", "<long>", "exec"), space)
    space["long"]()
    exec(compile("def " + "n" * 400 + "():\n cuda(here())\n", "/" + "d" * 700, "exec"), space)
    space["n" * 400]()
    kept.append(space)  # what is too long to be told is read from the process


def child():
    recursion(4)
    threads()
    generated()


def spawned():
    print("spawned", os.getpid(), flush=True)
    while not os.path.exists(f"{OUT}/go.{os.getpid()}"):
        time.sleep(0.005)
    child()


def forked():
    pid = os.fork()
    if not pid:
        child()
        os._exit(0)
    os.waitpid(pid, 0)
    for how, work in ("fork", child), ("spawn", spawned):
        p = multiprocessing.get_context(how).Process(target=work)
        p.start()
        p.join()


def main():
    print("ready", os.getpid(), flush=True)
    sys.stdin.readline()
    plain()
    for n in 1, 10, 30, 90, 300:
        recursion(n)
    for part in (classes, decorated, generators, coroutines, from_c, generated, unicode_names, endings, threads,
                 long_function, forked):
        part()
    print("done", flush=True)
    sys.stdin.readline()


if __name__ == "__main__":
    main()
