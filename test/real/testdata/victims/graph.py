# SPDX-License-Identifier: Apache-2.0
"""Inference by a CUDA graph, with some CPU work. As the fault, each step recaptures the graph."""

import argparse

import torch
from clock import Clock
from work import run


def forward(x, w):
    for _ in range(4):
        x = torch.relu(x @ w)
    return x


def capture(x, w):
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = forward(x, w)  # the fault
    return graph, y


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--recapture", action="store_true")
    p.add_argument("--ms", type=float, default=4)  # CPU time per step
    o = p.parse_args()
    clock, x, w = Clock(), torch.ones(512, 512, device="cuda"), torch.ones(512, 512, device="cuda")
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        forward(x, w)
    side.synchronize()
    graph, y = capture(x, w)
    going = True
    while going:
        run("python", o.ms)
        if o.recapture and clock.faulty():
            for _ in range(3):
                graph, y = capture(x, w)
        graph.replay()
        torch.cuda.synchronize()
        going = clock.step()
    clock.tell()


if __name__ == "__main__":
    main()
