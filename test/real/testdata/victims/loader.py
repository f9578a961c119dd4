# SPDX-License-Identifier: Apache-2.0
"""A training loop fed by a DataLoader. Its fault is in __getitem__."""

import argparse

import torch
from clock import Clock
from model import WIDTH
from work import run

BATCH = 16


class Samples(torch.utils.data.Dataset):
    def __init__(self, clock, options):
        self.clock, self.options = clock, options

    def __len__(self):
        return BATCH * self.options.batches

    def __getitem__(self, i):
        if self.options.fault and self.clock.faulty():
            run(self.options.fault, self.options.ms)
        return torch.full((WIDTH,), float(i)), i % 10


def consumer(kind):
    """Returns the step for a batch: PyTorch trains on the GPU, or numba runs one kernel."""
    if kind == "torch":
        from model import Trainer
        return Trainer().step
    import numba.cuda as cuda

    @cuda.jit("void(float32[:, :])")
    def train(x):
        x[0, 0] += 1

    def step(x, y):
        on = cuda.to_device(x.numpy())
        train[1, 32](on)
        cuda.synchronize()
    return step


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--method", default="fork")
    p.add_argument("--workers", type=int, default=1)
    p.add_argument("--pin", action="store_true")
    p.add_argument("--persistent", action="store_true")
    p.add_argument("--batches", type=int, default=1 << 20)
    p.add_argument("--consumer", default="torch")
    p.add_argument("--fault")
    p.add_argument("--ms", type=float, default=8)  # per sample
    o = p.parse_args()
    clock = Clock()
    loader = torch.utils.data.DataLoader(
        Samples(clock, o), batch_size=BATCH, num_workers=o.workers, pin_memory=o.pin, persistent_workers=o.persistent,
        multiprocessing_context=o.method if o.workers else None)
    step = consumer(o.consumer)
    going, workers = True, set()
    while going:
        batches = iter(loader)
        workers |= {w.pid for w in getattr(batches, "_workers", [])}
        for x, y in batches:
            step(x, y)
            if not (going := clock.step()):
                break
    clock.tell(culprits=sorted(workers))


if __name__ == "__main__":
    main()
