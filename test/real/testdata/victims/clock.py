# SPDX-License-Identifier: Apache-2.0
"""A victim's own clock: when each of its steps began and ended, and what its fault cost."""

import json
import mmap
import os
import struct
import threading
import time

import work

WARM = 20  # steps that are not compared
LATE_NS = 500_000_000  # for which what a fault has made late still comes


class Clock:
    """The lab writes when the fault begins and ends, and when the job ends: 0 until then."""

    def __init__(self, path="/srv/clock"):
        self.path, self.steps, self.lock = path, [], threading.Lock()
        with open(path, "r+b") as f:
            self.words = mmap.mmap(f.fileno(), 24)
        self.last = time.time_ns()

    def __reduce__(self):  # for workers that are spawned
        return Clock, (self.path,)

    def times(self):
        return struct.unpack("QQQ", self.words)

    def faulty(self):
        begin, end, _ = self.times()
        return begin <= time.time_ns() < end

    def over(self):
        return 0 < self.times()[2] <= time.time_ns()

    def add(self, begin, end):
        """Notes a step, and says when the job is warm."""
        with self.lock:
            self.steps.append((begin, end))
            if len(self.steps) == WARM:
                print("ready", os.getpid(), flush=True)

    def step(self):
        """Ends a step, and says whether another one is to be made."""
        now = time.time_ns()
        self.add(self.last, now)
        self.last = now
        return not self.over()

    def tell(self, **more):
        """Prints what the steps during the fault took more than the others."""
        begin, end, _ = self.times()
        touched, free = [], []
        for a, b in self.steps[WARM:]:
            (touched if b > begin and a < end + LATE_NS else free).append(b - a)
        free.sort()
        free = free[len(free) // 10 : len(free) - len(free) // 10]
        usual = sum(free) / len(free)
        print(json.dumps({
            "pid": os.getpid(), "steps": len(self.steps), "usual_ns": int(usual), "spread_ns": free[-1] - free[0],
            "touched": len(touched), "lost_ns": int(sum(touched) - len(touched) * usual), "ran_ns": work.ran, **more}), flush=True)
