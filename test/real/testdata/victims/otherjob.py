# SPDX-License-Identifier: Apache-2.0
"""Another job, which computes on the same GPU during the fault."""

import os

import torch
from clock import Clock
from work import run

clock, x = Clock(), torch.ones(256, 256, device="cuda")
torch.cuda.synchronize()
print("here", os.getpid(), flush=True)
while True:
    if clock.faulty():
        for _ in range(8):
            torch.relu(x)
        torch.cuda.synchronize()
    else:
        run("sleep", 20)
