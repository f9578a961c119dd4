# SPDX-License-Identifier: Apache-2.0
"""The work of victims' faults. The time is spent on the marked lines."""

import mmap
import os
import struct
import time
import zlib

DATA = "/srv/data"
SPENT = "/srv/spent"
BLOCK = 1 << 20
STRIDE = 1 << 15  # between pages that are read
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


def mapped(ns):
    fd = os.open(DATA, os.O_RDONLY)
    pages, at, end = mmap.mmap(fd, 0, prot=mmap.PROT_READ), 0, time.perf_counter_ns() + ns
    pages.madvise(mmap.MADV_RANDOM)
    while time.perf_counter_ns() < end:
        if at % len(pages) == 0:
            pages.madvise(mmap.MADV_DONTNEED)
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        at += pages[at % len(pages)] * 0 + STRIDE  # the fault
    os.close(fd)


def sleep(ns):
    time.sleep(ns / 1e9)  # the fault


FAULTS = {f.__name__: f for f in (compute, python, direct, evicted, mapped, sleep)}


def spent(ns):
    """Records CPU time of a fault that reads or writes, by the kernel's account. Loader workers do so, too."""
    with open(SPENT, "ab", buffering=0) as f:
        f.write(struct.pack("Q", ns))


def all_spent():
    """Returns the recorded CPU time of all processes, ns."""
    if not os.path.exists(SPENT):
        return 0
    with open(SPENT, "rb") as f:
        return sum(ns for ns, in struct.iter_unpack("Q", f.read()))


def run(fault, ms):
    """Runs a fault for ms milliseconds."""
    before = time.thread_time_ns()
    FAULTS[fault](int(ms * 1e6))
    if fault in ("direct", "evicted", "mapped"):
        spent(time.thread_time_ns() - before)
