# SPDX-License-Identifier: Apache-2.0
"""A training loop that saves its state. As the fault, each save waits for the disk."""

import argparse
import os
import time

import torch
import work
from clock import Clock
from model import Trainer, batch

EVERY = 10


def save(state, number, sync):
    """Writes a checkpoint to a file of its own, and removes the one before."""
    with open(f"/srv/checkpoint-{number}", "wb") as f:
        torch.save(state, f)
        f.flush()
        if sync:
            before = time.thread_time_ns()
            os.fsync(f.fileno())  # the fault
            work.ran += time.thread_time_ns() - before
    if number > 0:
        os.remove(f"/srv/checkpoint-{number - 1}")


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--sync", action="store_true")
    p.add_argument("--mib", type=int, default=64)
    o = p.parse_args()
    trainer, clock, (x, y), going = Trainer(), Clock(), batch(), True
    state = {"weights": torch.zeros(o.mib << 18)}
    number = 0
    while going:  # each step of the clock includes a save
        for _ in range(EVERY):
            trainer.step(x, y)
        save(state, number, o.sync and clock.faulty())
        number += 1
        going = clock.step()
    clock.tell()


if __name__ == "__main__":
    main()
