# SPDX-License-Identifier: Apache-2.0
"""A training loop that adds a row to a file of results, under a lock file. As the fault, another
program holds the lock."""

import fcntl
import json

from clock import Clock
from model import Trainer, batch


def add(lock, row):
    fcntl.flock(lock, fcntl.LOCK_EX)  # the fault
    with open("/srv/results", "a") as f:
        print(json.dumps(row), file=f)
    fcntl.flock(lock, fcntl.LOCK_UN)


def main():
    trainer, clock, (x, y), going = Trainer(), Clock(), batch(), True
    with open("/srv/lock", "w") as lock:
        while going:
            add(lock, {"loss": trainer.step(x, y)})
            going = clock.step()
    clock.tell()


if __name__ == "__main__":
    main()
