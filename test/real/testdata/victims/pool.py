# SPDX-License-Identifier: Apache-2.0
"""numba: threads of a pool prepare the main thread's GPU work. The fault is in the pool."""

import argparse
import os
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from clock import Clock
from numba import cuda, njit
from work import run


@njit("float32(float32[:], int64)", nogil=True)
def churn(data, rounds):
    total = np.float32(0)
    for _ in range(rounds):
        for i in range(data.size):
            total += data[i] * np.float32(0.5)
    return total


@cuda.jit("void(float32[:])")
def scale(data):
    data[0] *= 2


def prepare(data, clock, o):
    churn(data, 20)
    if o.fault == "churn" and clock.faulty():
        churn(data, o.rounds)  # the fault
    elif o.fault and clock.faulty():
        run(o.fault, o.ms)
    return data


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--fault")
    p.add_argument("--ms", type=float, default=60)
    p.add_argument("--rounds", type=int, default=6000)
    o = p.parse_args()
    clock, data, going = Clock(), np.ones(16384, np.float32), True
    on = cuda.to_device(data)
    with ThreadPoolExecutor(2) as pool:
        while going:
            pool.submit(prepare, data, clock, o).result()
            scale[1, 32](on)
            cuda.synchronize()
            going = clock.step()
    clock.tell(culprits=[os.getpid()])


if __name__ == "__main__":
    main()
