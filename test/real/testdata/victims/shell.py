# SPDX-License-Identifier: Apache-2.0
"""A training loop that starts a shell command in every third step, as a monitor of the GPU does. As
the fault, the command takes long."""

import argparse
import os

from clock import Clock
from model import Trainer, batch

EVERY = 3


def monitor(long):
    os.system("sha256sum /srv/data >/dev/null" if long else "true")  # the fault


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--fault", action="store_true")
    o = p.parse_args()
    trainer, clock, (x, y), going = Trainer(), Clock(), batch(), True
    while going:  # each step of the clock includes a command
        for _ in range(EVERY):
            trainer.step(x, y)
        monitor(o.fault and clock.faulty())
        going = clock.step()
    clock.tell()


if __name__ == "__main__":
    main()
