#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The jobs of ingero demo on a real GPU, through the driver's API: each step copies, launches
and synchronizes. Prints one JSON line with its counts."""

import argparse
import ctypes
import json
import os
import time

# Spins for the given time, in ns of the GPU's clock.
PTX = b"""
.version 6.0
.target sm_50
.address_size 64
.visible .entry spin(.param .u64 ns)
{
	.reg .pred %p;
	.reg .b64 %d<5>;
	ld.param.u64 %d1, [ns];
	mov.u64 %d2, %globaltimer;
again:
	mov.u64 %d3, %globaltimer;
	sub.u64 %d4, %d3, %d2;
	setp.lt.u64 %p, %d4, %d1;
	@%p bra again;
	ret;
}
"""
cuda = ctypes.CDLL("libcuda.so.1")


def call(name, *args):
    result = getattr(cuda, name)(*args)
    if result != 0:
        raise SystemExit(f"{name}: error {result}")


def alloc(size):
    ptr = ctypes.c_uint64()
    call("cuMemAlloc_v2", ctypes.byref(ptr), ctypes.c_size_t(size))
    return ptr


class Job:
    def __init__(self, args):
        self.args = args
        device, context = ctypes.c_int(), ctypes.c_void_p()
        module, self.function = ctypes.c_void_p(), ctypes.c_void_p()
        self.stream, self.pinned = ctypes.c_void_p(), ctypes.c_void_p()
        call("cuInit", 0)
        call("cuDeviceGet", ctypes.byref(device), 0)
        call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        call("cuCtxSetCurrent", context)
        call("cuModuleLoadData", ctypes.byref(module), PTX)
        call("cuModuleGetFunction", ctypes.byref(self.function), module, b"spin")
        call("cuStreamCreate", ctypes.byref(self.stream), 1)
        call("cuMemAllocHost_v2", ctypes.byref(self.pinned), ctypes.c_size_t(args.batch))
        self.device = alloc(args.batch)
        self.cache = None
        self.ns = ctypes.c_uint64(args.kernel_us * 1000)
        self.params = (ctypes.c_void_p * 1)(ctypes.addressof(self.ns))

    def copy(self):
        size = ctypes.c_size_t(self.args.batch)
        if self.args.wait_for_copies:
            call("cuMemcpyHtoD_v2", self.device, self.pinned, size)
            call("cuMemcpyDtoH_v2", self.pinned, self.device, size)
        else:
            call("cuMemcpyHtoDAsync_v2", self.device, self.pinned, size, self.stream)

    def cold(self):
        """Loads modules repeatedly, as a framework does in its first steps."""
        module, function = ctypes.c_void_p(), ctypes.c_void_p()
        for n in range(40):
            text = PTX.replace(b"spin", b"spin%d" % n)
            call("cuModuleLoadData", ctypes.byref(module), text)
            call("cuModuleGetFunction", ctypes.byref(function), module, b"spin%d" % n)

    def regrow(self):
        """Frees a large block and allocates another, as a caching allocator does."""
        if self.cache:
            call("cuMemFree_v2", self.cache)
        self.cache = alloc(2 << 30)

    def step(self, number):
        if self.args.cold and number < 3:
            self.cold()
        if self.args.alloc_every and number % self.args.alloc_every == self.args.alloc_every - 1:
            self.regrow()
        self.copy()
        for _ in range(self.args.launches):
            call("cuLaunchKernel", self.function, 1, 1, 1, 1, 1, 1, 0, self.stream, self.params, None)
        call("cuStreamSynchronize", self.stream)


def main():
    options = argparse.ArgumentParser()
    for name, default in (("seconds", 5), ("launches", 4), ("kernel-us", 500), ("batch", 1 << 20), ("alloc-every", 0), ("pin", -1)):
        options.add_argument("--" + name, type=int, default=default)
    for name in ("wait-for-copies", "cold"):
        options.add_argument("--" + name, action="store_true")
    args = options.parse_args()
    if args.pin >= 0:
        os.sched_setaffinity(0, {args.pin})
    deadline = time.monotonic() + args.seconds
    job = Job(args)
    steps = 0
    while time.monotonic() < deadline:
        job.step(steps)
        steps += 1
    print(json.dumps({"program": "gpu.py", "pid": os.getpid(), "steps": steps}))


if __name__ == "__main__":
    main()
