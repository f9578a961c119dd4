# SPDX-License-Identifier: Apache-2.0
"""A victim's own clock: the begin and end of each step, and the cost of the fault."""

import json
import mmap
import os
import struct
import threading
import time

import work

WARM = 20  # first steps, which are not compared
LATE_NS = 500_000_000  # steps that the fault delayed end up to this long after it


class Clock:
    """The lab writes the times of the fault's begin and end, and of the job's end; 0: not yet."""

    def __init__(self, path="/srv/clock"):
        self.path, self.steps, self.lock = path, [], threading.Lock()
        with open(path, "r+b") as f:
            self.words = mmap.mmap(f.fileno(), 24)
        self.last = time.time_ns()

    def __reduce__(self):  # for spawned workers
        return Clock, (self.path,)

    def times(self):
        return struct.unpack("QQQ", self.words)

    def faulty(self):
        begin, end, _ = self.times()
        return begin <= time.time_ns() < end

    def over(self):
        return 0 < self.times()[2] <= time.time_ns()

    def add(self, begin, end):
        """Records a step, and prints a line when the job is warm."""
        with self.lock:
            self.steps.append((begin, end))
            if len(self.steps) == WARM:
                print("ready", os.getpid(), flush=True)

    def step(self):
        """Ends a step; returns whether the job continues."""
        now = time.time_ns()
        self.add(self.last, now)
        self.last = now
        return not self.over()

    def tell(self, **more):
        """Prints how much longer the steps during the fault took than the others."""
        begin, end, _ = self.times()
        touched, free = [], []
        for a, b in self.steps[WARM:]:
            (touched if b > begin and a < end + LATE_NS else free).append(b - a)
        free.sort()
        free = free[len(free) // 10 : len(free) - len(free) // 10]
        usual = sum(free) / len(free)
        print(json.dumps({
            "pid": os.getpid(), "steps": len(self.steps), "spread_ns": free[-1] - free[0],
            "touched": len(touched), "lost_ns": int(sum(touched) - len(touched) * usual), "ran_ns": work.all_spent(), **more}), flush=True)
