# SPDX-License-Identifier: Apache-2.0
"""Two threads: one makes calls; the other holds the GIL, N times or until a line of input arrives.
argv: directory of gpu.py, what it does while it holds the GIL ("sleep", "sync", or "spin", in
which Python makes it release the GIL repeatedly), and N. Prints how long it held the GIL, and how long it ran."""

import ctypes
import select
import sys
import threading
import time

sys.path.insert(0, sys.argv[1])
import gpu

rt = gpu.Runtime()
kernel = rt.kernel("hold_22000us")
keeps = ctypes.PyDLL(rt.lib._name)  # calls by it keep the lock
libc = ctypes.PyDLL(None)
holds = int(sys.argv[3]) if len(sys.argv) > 3 else None
held = took = 0
over = False


def hold():
    if sys.argv[2] == "sleep":
        libc.usleep(22000)
    elif sys.argv[2] == "spin":
        end = time.monotonic() + 0.022
        while time.monotonic() < end: pass  # noqa: E701
    else:
        rt.launch(kernel, None)
        keeps.cudaDeviceSynchronize()


def holder():
    global held, over, took
    print("holder", threading.get_native_id(), hold.__code__.co_firstlineno + {"sleep": 2, "spin": 5, "sync": 8}[sys.argv[2]], flush=True)
    start = time.monotonic_ns()
    n = 0
    while n != holds and (holds or not select.select([sys.stdin], [], [], 0)[0]):
        began = time.monotonic_ns()
        hold()
        held += time.monotonic_ns() - began
        n += 1
        time.sleep(0.005)
    took = time.monotonic_ns() - start
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
if not holds:
    sys.stdin.readline()
print("done", held, took, flush=True)
sys.stdin.readline()
