# SPDX-License-Identifier: Apache-2.0
"""Gradients of several batches are accumulated for a step of the optimizer. The model becomes deeper
while the job runs."""

import torch
from clock import Clock
from model import WIDTH, batch
from torch import nn

PARTS, GROW, MOST = 8, 40, 6  # batches per step, steps per block, blocks


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 2 * WIDTH), nn.GELU(), nn.Linear(2 * WIDTH, WIDTH))

    def forward(self, x):
        return x + self.net(x)


def main():
    blocks, head = nn.ModuleList(Block() for _ in range(MOST)).cuda(), nn.Linear(WIDTH, 10).cuda()
    optimizer = torch.optim.AdamW([*blocks.parameters(), *head.parameters()])
    schedule, clock, n, going = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 100), Clock(), 0, True
    while going:
        for _ in range(PARTS):
            x, y = batch()
            x = x.cuda()
            for block in blocks[:min(2 + n // GROW, MOST)]:
                x = block(x)
            loss = nn.functional.cross_entropy(head(x), y.cuda()) / PARTS
            loss.backward()
            loss.item()
        optimizer.step()
        optimizer.zero_grad()
        schedule.step()
        n += 1
        going = clock.step()
    clock.tell()


if __name__ == "__main__":
    main()
