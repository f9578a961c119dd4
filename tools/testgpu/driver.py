#!/usr/bin/env python3
"""Uses the CUDA driver API and prints, as one JSON line, the exact number of calls
and errors by exported symbol: a vector add, copies both ways, four threads, a double
free and an out-of-memory error. Needs only libcuda.so.1."""

import argparse
import collections
import ctypes
import json
import sys
import threading
import time

PTX = b"""
.version 6.0
.target sm_50
.address_size 64
.visible .entry vector_add(.param .u64 a, .param .u64 b, .param .u64 c, .param .u32 n)
{
	.reg .pred %p;
	.reg .b32 %r<6>;
	.reg .f32 %f<4>;
	.reg .b64 %d<8>;
	ld.param.u64 %d1, [a];
	ld.param.u64 %d2, [b];
	ld.param.u64 %d3, [c];
	ld.param.u32 %r1, [n];
	mov.u32 %r2, %ctaid.x;
	mov.u32 %r3, %ntid.x;
	mov.u32 %r4, %tid.x;
	mad.lo.s32 %r5, %r2, %r3, %r4;
	setp.ge.u32 %p, %r5, %r1;
	@%p bra done;
	cvta.to.global.u64 %d1, %d1;
	cvta.to.global.u64 %d2, %d2;
	cvta.to.global.u64 %d3, %d3;
	mul.wide.u32 %d4, %r5, 4;
	add.s64 %d5, %d1, %d4;
	add.s64 %d6, %d2, %d4;
	add.s64 %d7, %d3, %d4;
	ld.global.f32 %f1, [%d5];
	ld.global.f32 %f2, [%d6];
	add.f32 %f3, %f1, %f2;
	st.global.f32 [%d7], %f3;
done:
	ret;
}
"""
N = 1 << 16  # elements
OUT_OF_MEMORY = 2

lock = threading.Lock()
made = collections.Counter()
errors = collections.Counter()
cuda = ctypes.CDLL("libcuda.so.1")


def call(name, *args, expect=0):
    """Calls a function, counts it, and ends the program on another result than
    the expected one; None expects any error."""
    result = getattr(cuda, name)(*args)
    with lock:
        made[name] += 1
        errors[name] += result != 0
    if result == 0 if expect is None else result != expect:
        sys.exit(f"{name}: result {result}, expected {'an error' if expect is None else expect}")


def buffer(count):
    ptr = ctypes.c_uint64()
    call("cuMemAlloc_v2", ctypes.byref(ptr), ctypes.c_size_t(count * 4))
    return ptr


class Adder:
    """Three buffers, a stream and the kernel; used by one thread."""

    def __init__(self, context, function):
        call("cuCtxSetCurrent", context)
        self.function = function
        self.stream = ctypes.c_void_p()
        call("cuStreamCreate", ctypes.byref(self.stream), 1)
        self.a, self.b, self.c = (buffer(N) for _ in range(3))
        self.host = (ctypes.c_float * N)(*range(N))
        self.sum = (ctypes.c_float * N)()

    def run(self, launches):
        size = ctypes.c_size_t(N * 4)
        for ptr in self.a, self.b:
            call("cuMemcpyHtoD_v2", ptr, self.host, size)
        n = ctypes.c_uint32(N)
        values = [self.a, self.b, self.c, n]
        params = (ctypes.c_void_p * 4)(*(ctypes.addressof(v) for v in values))
        for _ in range(launches):
            call("cuLaunchKernel", self.function, N // 256, 1, 1, 256, 1, 1, 0, self.stream, params, None)
        call("cuStreamSynchronize", self.stream)
        call("cuMemcpyDtoH_v2", self.sum, self.c, size)

    def right(self):
        return all(self.sum[i] == 2.0 * i for i in range(0, N, 97))

    def close(self):
        for ptr in self.a, self.b, self.c:
            call("cuMemFree_v2", ptr)
        call("cuStreamDestroy_v2", self.stream)


def faults():
    """A double free, and an allocation larger than any GPU's memory."""
    ptr = buffer(N)
    call("cuMemFree_v2", ptr)
    call("cuMemFree_v2", ptr, expect=None)
    call("cuMemAlloc_v2", ctypes.byref(ptr), ctypes.c_size_t(1 << 46), expect=OUT_OF_MEMORY)


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--launches", type=int, default=1000, help="by each thread")
    options.add_argument("--threads", type=int, default=4)
    options.add_argument("--check", action="store_true", help="compare the sums: a real GPU computes them")
    options = options.parse_args()

    device, context = ctypes.c_int(), ctypes.c_void_p()
    module, function = ctypes.c_void_p(), ctypes.c_void_p()
    call("cuInit", 0)
    call("cuDeviceGet", ctypes.byref(device), 0)
    call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
    call("cuCtxSetCurrent", context)
    call("cuModuleLoadData", ctypes.byref(module), PTX)
    call("cuModuleGetFunction", ctypes.byref(function), module, b"vector_add")

    adders = [Adder(context, function) for _ in range(options.threads)]

    def work(adder):
        call("cuCtxSetCurrent", context)
        adder.run(options.launches)

    started = time.monotonic_ns()
    threads = [threading.Thread(target=work, args=(a,)) for a in adders]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    elapsed = time.monotonic_ns() - started
    call("cuCtxSynchronize")
    right = all(a.right() for a in adders)
    if options.check and not right:
        sys.exit("the sums are wrong")
    for a in adders:
        a.close()
    faults()
    print(json.dumps({"program": "driver", "calls": made, "errors": +errors, "right": right, "elapsed_ns": elapsed}))


main()
