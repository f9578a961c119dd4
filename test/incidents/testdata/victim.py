#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A training loop in Python that logs the lab's step times (struct step_log in victim.h).
During the fault, another thread holds the GIL."""

import argparse
import mmap
import os
import struct
import sys
import threading
import time

STEPS, STEP, MAX = 128, 24, 1 << 17


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--sim", required=True, help="directory of the simulated stack")
    ap.add_argument("--log", required=True)
    ap.add_argument("--cpu", type=int, required=True)
    ap.add_argument("--work", type=int, default=2000, help="turns of a loop between steps")
    args = ap.parse_args()
    sys.path.insert(0, args.sim)
    import gpu

    with open(args.log, "r+b") as f:
        log = mmap.mmap(f.fileno(), 0)
    os.sched_setaffinity(0, {args.cpu} if args.cpu >= 0 else {0, 1})
    struct.pack_into("<Q", log, 16, os.getpid())
    print("ready", os.getpid(), flush=True)
    sys.stdin.readline()
    cuda = gpu.Runtime()
    stream, kernel = cuda.stream(), cuda.kernel("step_kernel_300us")

    def holder():
        while True:
            if log[0] & 1:
                sum(range(30000))
            else:
                time.sleep(0.005)

    threading.Thread(target=holder, daemon=True).start()
    for n in range(MAX):
        begin = time.time_ns()
        for _ in range(10):
            cuda.launch(kernel, stream)
        cuda.synchronize(stream)
        for _ in range(args.work):
            pass
        struct.pack_into("<qqQ", log, STEPS + n * STEP, begin, time.time_ns(), 0)
        struct.pack_into("<Q", log, 8, n + 1)


main()
