# SPDX-License-Identifier: Apache-2.0
"""Calls from the main interpreter beside a second one, and from within the second (3.13)."""

import ctypes
import sys

import _interpreters

probed = ctypes.PyDLL(sys.argv[1]).probed
print("ready", flush=True)
sys.stdin.readline()


def beside():
    probed(1)


beside()
second = _interpreters.create("legacy")
beside()
_interpreters.run_string(second, f"""
import ctypes
def inside():
    ctypes.PyDLL({sys.argv[1]!r}).probed(2)
inside()
""")
beside()
_interpreters.destroy(second)
beside()
print("done", flush=True)
sys.stdin.readline()
