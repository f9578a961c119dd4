# SPDX-License-Identifier: Apache-2.0
"""A training loop with many Python objects, as of a replay buffer. As the fault, each step makes new
objects, and the garbage collector reads all."""

import gc

from clock import Clock
from model import Trainer, batch


class Node:
    def __init__(self, number):
        self.number, self.itself = number, self


def refill(size=3000):
    for number in range(size):
        Node(number)  # the fault
    gc.collect()  # the fault


def main():
    replay = [{"state": [n], "action": (n, [n])} for n in range(150_000)]
    gc.disable()
    trainer, clock, (x, y), going = Trainer(), Clock(), batch(), True
    while going:
        trainer.step(x, y)
        if clock.faulty():
            refill()
        going = clock.step()
    clock.tell(kept=len(replay))


if __name__ == "__main__":
    main()
