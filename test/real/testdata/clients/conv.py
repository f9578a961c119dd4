# SPDX-License-Identifier: Apache-2.0
"""A small convolutional network: cuDNN computes the convolutions and the normalization."""

import json
import os

import torch
from torch import nn

STEPS = 10


def step(net, optimizer, x, y):
    out = net(x)
    loss = nn.functional.cross_entropy(out, y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    loss.item()  # the line that waits
    return out.shape


if __name__ == "__main__":
    net = nn.Sequential(
        nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 16, 3), nn.Flatten(), nn.Linear(16 * 13 * 13, 10)).cuda()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    x, y = torch.randn(4, 3, 32, 32).cuda(), torch.zeros(4, dtype=torch.long).cuda()
    for _ in range(STEPS):
        shape = step(net, optimizer, x, y)
    stats = torch.cuda.memory_stats()
    print(json.dumps({
        "pid": os.getpid(), "result": {"shape": list(shape), "cudnn": torch.backends.cudnn.is_available()},
        "calls": {"cudaMalloc": stats["num_device_alloc"], "cudaFree": stats["num_device_free"]}}), flush=True)
