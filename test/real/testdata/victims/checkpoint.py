# SPDX-License-Identifier: Apache-2.0
"""A training loop that saves its state. As the fault, each save waits for the disk."""

import argparse
import os

import torch
from clock import Clock
from model import Trainer, batch

EVERY = 10


def save(state, sync):
    with open("/srv/checkpoint", "wb") as f:
        torch.save(state, f)
        f.flush()
        if sync:
            os.fsync(f.fileno())  # the fault


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--sync", action="store_true")
    p.add_argument("--mib", type=int, default=16)
    o = p.parse_args()
    trainer, clock, (x, y), going = Trainer(), Clock(), batch(), True
    state = {"weights": torch.zeros(o.mib << 18)}
    while going:  # each step of the clock includes a save
        for _ in range(EVERY):
            trainer.step(x, y)
        save(state, o.sync and clock.faulty())
        going = clock.step()
    clock.tell()


if __name__ == "__main__":
    main()
