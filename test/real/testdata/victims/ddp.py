# SPDX-License-Identifier: Apache-2.0
"""Two ranks of one training job: DistributedDataParallel over gloo, with a head on the CPU behind
an encoder on the GPU. The fault is in rank 1."""

import argparse
import os

import torch
import torch.distributed as dist
from clock import Clock
from model import Trainer, batch
from torch import nn
from work import run


def rank(number, o):
    dist.init_process_group("gloo", init_method="file:///srv/meet", rank=number, world_size=2)
    encoder, clock, (x, y) = Trainer().net, Clock(), batch()
    head = nn.parallel.DistributedDataParallel(nn.Linear(10, 10))
    optimizer, going = torch.optim.SGD(head.parameters(), lr=0.01), torch.ones(1)
    while going.item():
        if number == 1 and o.fault and clock.faulty():
            run(o.fault, o.ms)
        with torch.no_grad():
            features = encoder(x.cuda()).cpu()
        optimizer.zero_grad()
        nn.functional.cross_entropy(head(torch.nan_to_num(features)), y).backward()
        optimizer.step()
        if number == 0:
            going[0] = clock.step()
        dist.broadcast(going, 0)
    return clock


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--fault")
    p.add_argument("--ms", type=float, default=100)
    o = p.parse_args()
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    other = torch.multiprocessing.get_context("spawn").Process(target=rank, args=(1, o), daemon=True)
    other.start()
    rank(0, o).tell(culprits=[other.pid])


if __name__ == "__main__":
    main()
