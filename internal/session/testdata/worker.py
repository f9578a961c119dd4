# SPDX-License-Identifier: Apache-2.0
"""A program that waits for a worker's input, and synchronises. The worker makes no calls of CUDA:
it makes the input, and hands it to a thread that writes it. argv: where gpu.py is, what making
takes: "sleep" or "spin", and whether the worker is a "fork", or a "program" of its own, which also
"calls" a function of CUDA first, or waits for "acks" of the thread that writes, or "shares" the work
with a process that gives input, too, and works while the worker makes its own. It prints the
number of the worker, and where that spends its time, and ends once there is a line to read."""

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
    """Starts a process that works for 40 ms, longer than making takes, each time that it is told to, and
    then gives input. Returns the pipe that tells it."""
    told, tell = os.pipe()
    if not os.fork():
        os.close(tell)
        while os.read(told, 1):
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
