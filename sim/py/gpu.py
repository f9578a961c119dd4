# SPDX-License-Identifier: Apache-2.0
"""The part of the CUDA runtime that the Python workloads use, by ctypes alone."""

import ctypes
import os

H2D, D2H = 1, 2
HERE = os.path.dirname(os.path.abspath(__file__))


class Dim3(ctypes.Structure):
    _fields_ = [("x", ctypes.c_uint), ("y", ctypes.c_uint), ("z", ctypes.c_uint)]


class CudaError(RuntimeError):
    """A CUDA call failed."""


class Runtime:
    """One loaded runtime library; counts the calls that it makes."""

    def __init__(self, path=None):
        self.lib = ctypes.CDLL(path or os.path.join(HERE, "libcudart.so.12"))
        self.lib.cudaGetErrorString.restype = ctypes.c_char_p
        self.lib.__getattr__("__cudaRegisterFatBinary").restype = ctypes.c_void_p
        self.lib.cudaLaunchKernel.argtypes = [
            ctypes.c_void_p, Dim3, Dim3, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p]
        self.counts = {}
        self.kernels = []

    def call(self, name, *args):
        """Makes one call and raises CudaError when it fails."""
        self.counts[name] = self.counts.get(name, 0) + 1
        err = getattr(self.lib, name)(*args)
        if err:
            text = self.lib.cudaGetErrorString(err).decode()
            raise CudaError(f"{name}: {text} ({err})")

    def kernel(self, name):
        """Registers a kernel, as code made by nvcc does, and returns its address."""
        cell = ctypes.create_string_buffer(name.encode())
        self.kernels.append(cell)
        register = self.lib.__getattr__("__cudaRegisterFunction")
        handle = self.lib.__getattr__("__cudaRegisterFatBinary")(b"simulated")
        null = ctypes.c_void_p()
        register(ctypes.c_void_p(handle), cell, null, cell, -1, null, null, null, null, null)
        return ctypes.addressof(cell)

    def launch(self, kernel, stream, grid=64, block=256):
        """Launches a registered kernel."""
        self.call("cudaLaunchKernel", kernel, Dim3(grid, 1, 1), Dim3(block, 1, 1), None, 0, stream)

    def malloc(self, size):
        p = ctypes.c_void_p()
        self.call("cudaMalloc", ctypes.byref(p), ctypes.c_size_t(size))
        return p

    def free(self, p):
        self.call("cudaFree", p)

    def pinned(self, size):
        p = ctypes.c_void_p()
        self.call("cudaMallocHost", ctypes.byref(p), ctypes.c_size_t(size))
        return p

    def stream(self):
        s = ctypes.c_void_p()
        self.call("cudaStreamCreate", ctypes.byref(s))
        return s

    def copy(self, dst, src, size, kind, stream):
        self.call("cudaMemcpyAsync", dst, src, ctypes.c_size_t(size), kind, stream)

    def synchronize(self, stream):
        self.call("cudaStreamSynchronize", stream)


def hold(wanted):
    """Prints "ready PID" and waits for a line, so that probes can be attached first."""
    if wanted:
        print("ready", os.getpid(), flush=True)
        input()
