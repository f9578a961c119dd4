# SPDX-License-Identifier: Apache-2.0
"""A training loop beside a thread of pure Python, which holds the GIL during the fault."""

import argparse
import os
import threading

from clock import Clock
from model import Trainer, batch
from work import run


def beside(clock, fault):
    while True:
        if fault and clock.faulty():
            run(fault, 20)
        else:
            run("sleep", 10)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--fault")
    o = p.parse_args()
    clock = Clock()
    threading.Thread(target=beside, args=(clock, o.fault), daemon=True).start()
    trainer, (x, y), going = Trainer(), batch(), True
    while going:
        trainer.step(x, y)
        going = clock.step()
    clock.tell(culprits=[os.getpid()])
    os._exit(0)


if __name__ == "__main__":
    main()
