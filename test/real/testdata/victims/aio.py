# SPDX-License-Identifier: Apache-2.0
"""asyncio: an executor waits for the GPU. The fault is in the event loop, or in the executor."""

import argparse
import asyncio
import os
from concurrent.futures import ThreadPoolExecutor

import torch
from clock import Clock
from work import run


def infer(x, clock, o):
    if o.executor and clock.faulty():
        run(o.executor, o.ms)
    for _ in range(4):
        y = torch.relu(x @ x)
    return y.sum().item()


async def serve(clock, o):
    loop, pool, x, going = asyncio.get_running_loop(), ThreadPoolExecutor(2), torch.ones(256, 256, device="cuda"), True
    while going:
        await asyncio.sleep(0.004)
        if o.loop and clock.faulty():
            run(o.loop, o.ms)
        await loop.run_in_executor(pool, infer, x, clock, o)
        going = clock.step()


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--loop")
    p.add_argument("--executor")
    p.add_argument("--ms", type=float, default=40)
    o = p.parse_args()
    clock = Clock()
    asyncio.run(serve(clock, o))
    clock.tell(culprits=[] if o.executor else [os.getpid()])
    os._exit(0)


if __name__ == "__main__":
    main()
