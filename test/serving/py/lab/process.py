# SPDX-License-Identifier: Apache-2.0
"""What the server's processes share: how they start and end, the fault's window, and the truth."""

import ctypes
import json
import multiprocessing
import os
import signal
import time

PR_SET_PDEATHSIG = 1
ARG_START, ARG_END = 45, 46  # in /proc/PID/stat, after the program's name

now = time.monotonic_ns


def spin(rounds):
    """Uses CPU time: some 50 ns a round."""
    x = 0
    for i in range(rounds):
        x = (x * 33 + i) & 0xFFFFFFFF
    return x


def set_title(title):
    """Sets the command line of this process, as setproctitle does: it overwrites its memory."""
    with open("/proc/self/stat", encoding="utf-8", errors="replace") as f:
        fields = f.read().rpartition(")")[2].split()
    start, end = int(fields[ARG_START]), int(fields[ARG_END])
    ctypes.memmove(start, title.encode().ljust(end - start, b"\0")[:end - start], end - start)


def start(title, target, *args):
    """Starts target(link, *args) in a process that ends with this one. Returns its PID and the
    other end of its link."""
    ours, theirs = multiprocessing.Pipe()
    parent = os.getpid()

    def run():
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)
        set_title(title)
        target(theirs, *args)

    process = multiprocessing.get_context("fork").Process(target=run, daemon=True)
    process.start()
    theirs.close()
    return process.pid, ours


class Fault:
    """A fault and its window, in seconds since begin. All processes of a program share it."""

    def __init__(self, name, at, length):
        self.name, self.at, self.until = name, at, at + length
        self.zero = multiprocessing.RawValue("d", float("inf"))

    def begin(self):
        self.zero.value = time.monotonic()

    def on(self, name):
        return name == self.name and self.at <= time.monotonic() - self.zero.value < self.until


def fault_options(parser, names):
    parser.add_argument("--fault", choices=names, help="fault to inject")
    parser.add_argument("--from", type=float, default=0, dest="at", help="begin of the fault, in seconds")
    parser.add_argument("--for", type=float, default=float("inf"), dest="length", help="length of the fault, in seconds")


class Truth:
    """A file of JSON lines that several processes append to. Times are CLOCK_MONOTONIC in ns."""

    def __init__(self, path):
        self.fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def add(self, kind, **fields):
        os.write(self.fd, json.dumps({"kind": kind, **fields}).encode() + b"\n")
