#!/usr/bin/env python3
"""A small training loop in PyTorch. Prints one JSON line: its steps, its time
and, with --count, the runtime calls according to PyTorch's own profiler."""

import argparse
import collections
import json
import time

import torch

LAUNCHES = ("cudaLaunchKernel", "cudaLaunchKernelExC")


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--steps", type=int, default=200)
    options.add_argument("--count", action="store_true")
    options = options.parse_args()

    def train():
        torch.manual_seed(1)
        model = torch.nn.Sequential(torch.nn.Linear(256, 1024), torch.nn.ReLU(), torch.nn.Linear(1024, 10)).cuda()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        started = time.monotonic_ns()
        for _ in range(options.steps):
            data = torch.randn(64, 256).cuda()
            target = torch.randint(0, 10, (64,)).cuda()
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(model(data), target)
            loss.backward()
            optimizer.step()
            loss.item()
        torch.cuda.synchronize()
        return time.monotonic_ns() - started

    calls = collections.Counter()
    if options.count:
        activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
        with torch.profiler.profile(activities=activities) as profile:
            elapsed = train()
        for event in profile.events():
            if event.name in LAUNCHES:
                calls[event.name] += 1
    else:
        elapsed = train()
    print(json.dumps({
        "program": "torch", "steps": options.steps, "elapsed_ns": elapsed, "calls": calls,
        "torch": torch.__version__, "cuda": torch.version.cuda, "device": torch.cuda.get_device_name(),
    }))


main()
