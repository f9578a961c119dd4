# SPDX-License-Identifier: Apache-2.0
"""Waits for input from a worker, then synchronizes. The worker makes no CUDA calls: it prepares the
input and passes it to a thread that writes it. argv: directory of gpu.py; what preparing does,
"sleep" or "spin"; and the kind of worker: a "fork", a "program", a program that first "calls" a
CUDA function, one that waits for "acks" of the writing thread, one that "polls" often after it, or one
that "shares" the work with a second process, which prepares input at the same time. Prints the worker's PID and the place
where it spends its time, and ends when a line of input arrives."""

import os
import queue
import select
import subprocess
import sys
import threading
import time


def sleep():
    time.sleep(0.03)


def spin():
    end = time.monotonic() + 0.03
    while time.monotonic() < end: pass  # noqa: E701


def work(seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end: pass  # noqa: E701


def share(give):
    """Starts a process that, for each line on a pipe, works for 40 ms, longer than preparing takes, and
    then writes input. Returns the pipe."""
    asked, tell = os.pipe()
    if not os.fork():
        os.close(tell)
        while os.read(asked, 1):
            work(0.04)
            os.write(give, b"y")
        os._exit(0)
    return tell


def share_work(take, give):
    tell, make = share(give), globals()[sys.argv[2]]
    while os.read(take, 1):
        os.write(tell, b"x")
        make()
        work(0.02)
        os.write(give, b"x")
    os._exit(0)


def runtime():
    sys.path.insert(0, sys.argv[1])
    import gpu

    return gpu.Runtime()


def worker(take, give):
    q, written = queue.SimpleQueue(), threading.Semaphore(0)

    def feed():
        while True:
            os.write(give, q.get())
            if sys.argv[3] == "acks":
                time.sleep(0.01)
                written.release()

    threading.Thread(target=feed, daemon=True).start()
    make = globals()[sys.argv[2]]
    if sys.argv[3] == "calls":
        runtime().lib.cudaSetDevice(0)
    while os.read(take, 1):
        make()
        if sys.argv[3] == "polls":
            for _ in range(20):
                select.select([], [], [], 0.0002)
        q.put(b"x")
        if sys.argv[3] == "acks":
            written.acquire()
    os._exit(0)


def main():
    rt = runtime()
    rt.lib.cudaSetDevice(0)
    print("ready", flush=True)
    sys.stdin.readline()
    (take, ask), (take_input, give) = os.pipe(), os.pipe()
    if sys.argv[3] == "fork":
        pid = os.fork()
        if not pid:
            os.close(ask)
            worker(take, give)
    else:
        pid = subprocess.Popen([sys.executable, *sys.argv, str(take), str(give)], pass_fds=(take, give), stdin=subprocess.DEVNULL).pid
    code = globals()[sys.argv[2]].__code__
    print("worker", pid, code.co_firstlineno + (1 if sys.argv[2] == "sleep" else 2), flush=True)
    while not select.select([sys.stdin], [], [], 0)[0]:
        os.write(ask, b"x")
        os.read(take_input, 1)
        rt.lib.cudaDeviceSynchronize()
    print("done", flush=True)


if len(sys.argv) > 4:
    if sys.argv[3] == "shares":
        share_work(int(sys.argv[4]), int(sys.argv[5]))
    worker(int(sys.argv[4]), int(sys.argv[5]))
main()
