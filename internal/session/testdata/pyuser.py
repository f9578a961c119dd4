# SPDX-License-Identifier: Apache-2.0
"""Makes calls whose argument identifies their place: first one at a time, each followed by a wait
for a line of input; then many without a pause. argv: the library."""

import ctypes
import sys

call = ctypes.CDLL(sys.argv[1]).cudaSetDevice


def stand(n):
    call(n)
    sys.stdin.readline()


def outer(n):
    stand(n)


def spin(n):
    return sum(i for i in range(n))


def one():
    call(1001)
    spin(2000)


def two():
    one()
    spin(1000)
    call(1002)


def main():
    call(0)
    print("ready", flush=True)
    sys.stdin.readline()
    for n in range(1, 11):
        outer(n)
    for _ in range(500):
        one()
        two()
    print("done", flush=True)
    sys.stdin.readline()


main()
