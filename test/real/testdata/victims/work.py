# SPDX-License-Identifier: Apache-2.0
"""The work of victims' faults. The time is spent on the marked lines."""

import mmap
import os
import time
import zlib

DATA = "/srv/data"
BLOCK = 1 << 20
PACKED = zlib.compress(os.urandom(1 << 14) * 4)


def compute(ns):
    end = time.perf_counter_ns() + ns
    while time.perf_counter_ns() < end:  # the fault
        zlib.decompress(PACKED)  # the fault


def python(ns):
    end = time.perf_counter_ns() + ns
    seen = {}
    while time.perf_counter_ns() < end:  # the fault
        for i in range(1000):  # the fault
            seen[i % 50] = i * i % 7  # the fault


def direct(ns):
    end, fd, into, at = time.perf_counter_ns() + ns, os.open(DATA, os.O_RDONLY | os.O_DIRECT), mmap.mmap(-1, BLOCK), 0
    while time.perf_counter_ns() < end:
        at += os.preadv(fd, [into], at % os.fstat(fd).st_size)  # the fault
    os.close(fd)


def evicted(ns):
    end, fd, at = time.perf_counter_ns() + ns, os.open(DATA, os.O_RDONLY), 0
    while time.perf_counter_ns() < end:
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        at += len(os.pread(fd, BLOCK, at % os.fstat(fd).st_size))  # the fault
    os.close(fd)


def sleep(ns):
    time.sleep(ns / 1e9)  # the fault


FAULTS = {f.__name__: f for f in (compute, python, direct, evicted, sleep)}
ran = 0  # ns of CPU time of this process in faults that read, by the kernel's account


def run(fault, ms):
    """Runs a fault for ms milliseconds."""
    global ran
    before = time.thread_time_ns()
    FAULTS[fault](int(ms * 1e6))
    if fault in ("direct", "evicted"):
        ran += time.thread_time_ns() - before
