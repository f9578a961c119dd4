# SPDX-License-Identifier: Apache-2.0
"""Corrupts the interpreter's frames (CPython 3.11 to 3.13), makes a call, and restores them.
argv: a library, and one of its functions."""

import ctypes
import random
import sys

probed = getattr(ctypes.PyDLL(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else "probed")
FRAME, INSTR = 24, 56
CODE, PREVIOUS = (32, 48) if sys.version_info < (3, 12) else (0, 8)


def word(at):
    return ctypes.c_uint64.from_address(at)


def frame(depth):
    return word(id(sys._getframe(depth + 1)) + FRAME).value


def attack(at, value):
    cell = word(at)
    was = cell.value
    cell.value = value
    probed(1)
    cell.value = was


def main():
    print("ready", flush=True)
    sys.stdin.readline()
    above = frame(1)
    rng = random.Random(1)
    for value in 0, 1, 7, above, above + 1, id(sys), 0x4141414141414141, 2**64 - 1, 2**47, 0xFFFF800000000000:
        for member in CODE, PREVIOUS, INSTR:
            attack(above + member, value)
    ring = frame(0)
    attack(above + PREVIOUS, ring)
    for _ in range(2000):
        attack(above + rng.choice((CODE, PREVIOUS, INSTR)), rng.choice((rng.getrandbits(64), above + rng.randrange(-4096, 4096), id(rng))))
    code = main.__code__
    for member in range(64, 144, 8):
        attack(id(code) + member, rng.getrandbits(64))
    print("done", flush=True)
    sys.stdin.readline()


def outer():
    main()


outer()
