# Calls traced() of the library argv[1] from argv[2] stacks of many kinds.
import ctypes
import random
import sys

lib = ctypes.CDLL(sys.argv[1])
pick = random.Random(42).randrange


def generator(depth):
    yield go_on(depth)


def through_sort(depth):
    return len(sorted([3, 1], key=lambda n: go_on(depth) if n == 3 else 0))


def through_map(depth):
    return max(map(go_on, [depth]))


class Late:
    def __init__(self, depth):
        self.depth = depth

    def __eq__(self, other):
        return go_on(self.depth) == other


def go_on(depth):
    if depth <= 0:
        lib.traced()
        return 0
    depth -= 1
    kind = pick(6)
    if kind == 0:
        return lib.through_library(callback, depth)
    if kind == 1:
        return lib.through_sort(callback, depth)
    if kind == 2:
        return next(generator(depth))
    if kind == 3:
        return through_sort(depth)
    if kind == 4:
        return through_map(depth)
    return int(Late(depth) == 1)


callback = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)(go_on)
print("ready", flush=True)
sys.stdin.readline()
for _ in range(int(sys.argv[2])):
    go_on(pick(7))
