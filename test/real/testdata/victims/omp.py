# SPDX-License-Identifier: Apache-2.0
"""PyTorch on CPU and GPU: OpenMP's threads work in each step. The fault is too many threads."""

import argparse

import torch
from clock import Clock
from model import Trainer, batch


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--usual", type=int, default=2)
    p.add_argument("--threads", type=int, default=0)  # during the fault
    o = p.parse_args()
    torch.set_num_threads(o.usual)
    trainer, clock, (x, y), going = Trainer(), Clock(), batch(), True
    a = torch.randn(1 << 18)
    while going:
        torch.set_num_threads(o.threads if o.threads and clock.faulty() else o.usual)
        for _ in range(8):
            torch.sin(a)
        trainer.step(x, y)
        going = clock.step()
    clock.tell()


if __name__ == "__main__":
    main()
