# SPDX-License-Identifier: Apache-2.0
"""A sweep over hyperparameters: each trial has its own model, batch size and number of steps."""

import gc
import itertools

import torch
from clock import Clock
from model import WIDTH, batch
from torch import nn

TRIALS = [(2, 64, 16, 50), (6, 64, 8, 30), (1, 128, 64, 60), (4, 256, 16, 40), (8, 64, 16, 50), (2, 32, 8, 60)]


def trial(clock, depth, width, size, steps):
    """Trains a model; returns its best loss, and whether the job continues."""
    layers = [nn.Linear(WIDTH, width)]
    for _ in range(depth):
        layers += [nn.LayerNorm(width), nn.ReLU(), nn.Linear(width, width)]
    net = nn.Sequential(*layers, nn.Linear(width, 10)).cuda()
    optimizer, best, going, n = torch.optim.SGD(net.parameters(), lr=0.1), float("inf"), True, 0
    while going and n < steps:
        x, y = batch(size)
        loss = nn.functional.cross_entropy(net(x.cuda()), y.cuda())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        best, n, going = min(best, loss.item()), n + 1, clock.step()
    return best, going


def main():
    clock = Clock()
    for options in itertools.cycle(TRIALS):
        best, going = trial(clock, *options)
        with open("/srv/trials", "a") as f:
            print(options, best, file=f)
        if not going:
            break
        gc.collect()
        torch.cuda.empty_cache()
    clock.tell()


if __name__ == "__main__":
    main()
