# SPDX-License-Identifier: Apache-2.0
"""A typical training loop: a data set, a loader with workers, a model, Adam."""

import json
import os
import sys

import torch
from torch import nn

STEPS, BATCH, WIDTH = 40, 16, 64


class Numbers(torch.utils.data.Dataset):
    def __len__(self):
        return STEPS * BATCH

    def __getitem__(self, i):
        return torch.full((WIDTH,), float(i)), torch.tensor(i % 10)


def model():
    return nn.Sequential(nn.Linear(WIDTH, 256), nn.LayerNorm(256), nn.ReLU(), nn.Linear(256, 10)).cuda()


def train(net, loader):
    optimizer = torch.optim.Adam(net.parameters())
    seen = waits = 0
    for x, y in loader:
        seen += int(y.sum())
        x, y = x.cuda(non_blocking=True), y.cuda(non_blocking=True)
        loss = nn.functional.cross_entropy(net(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        waits += loss.item() is not None  # the line that waits
    return seen, waits


if __name__ == "__main__":
    method = sys.argv[1] if len(sys.argv) > 1 else "fork"
    loader = torch.utils.data.DataLoader(Numbers(), batch_size=BATCH, num_workers=2, pin_memory=True, multiprocessing_context=method)
    seen, waits = train(model(), loader)
    stats = torch.cuda.memory_stats()
    print(json.dumps({
        "pid": os.getpid(), "result": {"seen": seen, "waits": waits, "device": torch.cuda.get_device_name()},
        "calls": {"cudaMalloc": stats["num_device_alloc"], "cudaFree": stats["num_device_free"]}}), flush=True)
