# SPDX-License-Identifier: Apache-2.0
"""Two threads: one makes calls, and the other keeps Python's lock from it. argv: where gpu.py
is, and what it keeps the lock across: "sleep" or "sync"."""

import ctypes
import sys
import threading
import time

sys.path.insert(0, sys.argv[1])
import gpu

rt = gpu.Runtime()
kernel = rt.kernel("hold_22000us")
keeps = ctypes.PyDLL(rt.lib._name)  # calls by it keep the lock
libc = ctypes.PyDLL(None)
HOLDS = 25
over = False


def hold():
    if sys.argv[2] == "sleep":
        libc.usleep(22000)
    else:
        rt.launch(kernel, None)
        keeps.cudaDeviceSynchronize()


def holder():
    global over
    print("holder", threading.get_native_id(), hold.__code__.co_firstlineno + (2 if sys.argv[2] == "sleep" else 5), flush=True)
    for _ in range(HOLDS):
        hold()
        time.sleep(0.005)
    over = True


def train():
    while not over:
        rt.lib.cudaSetDevice(0)


rt.lib.cudaSetDevice(0)
print("ready", flush=True)
sys.stdin.readline()
t = threading.Thread(target=holder)
t.start()
train()
t.join()
print("done", flush=True)
sys.stdin.readline()
