# SPDX-License-Identifier: Apache-2.0
"""A training loop that saves its state. As the fault, each save waits for the disk."""

import argparse
import os
import statistics
import time

import torch
import work
from clock import Clock
from model import Trainer, batch

EVERY = 10


class Saver:
    """Saves checkpoints, and has the time of the calls that the fault adds or delays."""

    def __init__(self, mib):
        self.state, self.number = {"weights": torch.zeros(mib << 18)}, 0
        self.synced, self.removed = 0, {True: [], False: []}

    def save(self, sync):
        """Writes a checkpoint to a file of its own, and removes the one before."""
        with open(f"/srv/checkpoint-{self.number}", "wb") as f:
            torch.save(self.state, f)
            f.flush()
            if sync:
                before, ran = time.perf_counter_ns(), time.thread_time_ns()
                os.fsync(f.fileno())  # the fault
                self.synced += time.perf_counter_ns() - before
                work.spent(time.thread_time_ns() - ran)
        before = time.perf_counter_ns()
        if self.number > 0:
            os.remove(f"/srv/checkpoint-{self.number - 1}")  # the fault
        self.removed[sync].append(time.perf_counter_ns() - before)
        self.number += 1

    def lost(self):
        """Returns the time in fsync, and by how much removing a file took longer."""
        usual = statistics.median(self.removed[False])
        return self.synced + int(sum(n - usual for n in self.removed[True]))


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--sync", action="store_true")
    p.add_argument("--mib", type=int, default=64)
    o = p.parse_args()
    trainer, saver, clock, (x, y), going = Trainer(), Saver(o.mib), Clock(), batch(), True
    while going:  # each step of the clock includes a save
        for _ in range(EVERY):
            trainer.step(x, y)
        saver.save(o.sync and clock.faulty())
        going = clock.step()
    clock.tell(lost_ns=saver.lost())


if __name__ == "__main__":
    main()
