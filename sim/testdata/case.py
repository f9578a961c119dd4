# SPDX-License-Identifier: Apache-2.0
"""Shared by the tests of the simulated GPU. The first argument is the stack's directory."""

import ctypes
import os
import sys
import time
import unittest

DIR = sys.argv.pop(1)
os.environ.setdefault("INGERO_SIM_MEM", "64M")
sys.path.insert(0, DIR)

import gpu  # noqa: E402

NON_BLOCKING = 1
ms = 1e-3
LONG_MS = 150  # longer than a loaded machine keeps a thread waiting


class Case(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cuda = gpu.Runtime()
        cls.lib = cls.cuda.lib
        cls.cuda.call("cudaSetDevice", 0)
        cls.driver = ctypes.CDLL(os.path.join(DIR, "libcuda.so.1"))
        cls.long = cls.cuda.kernel(f"work_{LONG_MS * 1000}us")
        cls.short = cls.cuda.kernel("work_2000us")

    def tearDown(self):
        self.cuda.call("cudaDeviceSynchronize")

    def stream(self, flags=0):
        s = ctypes.c_void_p()
        self.cuda.call("cudaStreamCreateWithFlags", ctypes.byref(s), flags)
        return s

    def event(self):
        e = ctypes.c_void_p()
        self.cuda.call("cudaEventCreate", ctypes.byref(e))
        return e

    def waits(self, name, *args):
        begin = time.monotonic()
        self.cuda.call(name, *args)
        return time.monotonic() - begin
