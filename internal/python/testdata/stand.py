# SPDX-License-Identifier: Apache-2.0
"""Threads that block in calls, each at a different depth, until a line of input arrives."""

import ctypes
import json
import os
import sys
import threading

lib = ctypes.CDLL(sys.argv[1])
readable, writable = os.pipe()
count = threading.Semaphore(0)


def here(number):
    stack, f = [], sys._getframe(1)
    while f:
        stack.append([getattr(f.f_code, "co_qualname", f.f_code.co_name), f.f_code.co_filename, f.f_lineno])
        f = f.f_back
    with open(f"{sys.argv[2]}/truth.{os.getpid()}", "a") as out:
        out.write(json.dumps([threading.get_native_id(), stack]) + "\n")
    count.release()
    return number


def deep(n, number):
    if n:
        return list(map(lambda m: deep(m, number), [n - 1]))
    lib.stand(here(number), readable)


threads = [threading.Thread(target=deep, args=(i * 4, i)) for i in range(6)]
for t in threads:
    t.start()
for t in threads:
    count.acquire()
print("ready", os.getpid(), flush=True)
sys.stdin.readline()
os.close(writable)
for t in threads:
    t.join()
