# SPDX-License-Identifier: Apache-2.0
"""Runs functions in turn, each with one call, until it is killed."""

import ctypes
import sys

probed = ctypes.PyDLL(sys.argv[1]).probed


def spin(n):
    x = 0
    for i in range(n):
        x += i
    return x


def one():
    probed(1)
    spin(2000)


def two():
    spin(1000)
    probed(2)


def three():
    one()
    probed(3)
    two()


def main():
    print("ready", flush=True)
    sys.stdin.readline()
    while True:
        one()
        two()
        three()


main()
