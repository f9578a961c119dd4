# SPDX-License-Identifier: Apache-2.0
"""A training loop that reads its samples from SQLite. As the fault, another program has a
transaction, and SQLite sleeps until it ends."""

import random
import sqlite3

import torch
from clock import Clock
from model import Trainer


def samples(base, size=16):
    ids = random.sample(range(1000), size)
    rows = base.execute(f"select x, y from samples where id in ({','.join('?' * size)})", ids).fetchall()  # the fault
    return torch.stack([torch.frombuffer(bytearray(x), dtype=torch.float32) for x, _ in rows]), torch.tensor([y for _, y in rows])


def main():
    base = sqlite3.connect("/srv/samples", timeout=30)
    trainer, clock, going = Trainer(), Clock(), True
    while going:
        trainer.step(*samples(base))
        going = clock.step()
    clock.tell()


if __name__ == "__main__":
    main()
