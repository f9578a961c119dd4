# SPDX-License-Identifier: Apache-2.0
"""numba: compiles a function for the GPU, launches it and waits for it."""

import json
import os

import numpy as np
from numba import cuda

LAUNCHES = 30


@cuda.jit("void(float32[:], float32)")
def scale(data, by):
    i = cuda.grid(1)
    if i < data.size:
        data[i] *= by


def run(data):
    for _ in range(LAUNCHES):
        scale[4, 256](data, 2.0)  # the line that launches
    cuda.synchronize()


if __name__ == "__main__":
    run(cuda.to_device(np.ones(1024, np.float32)))
    print(json.dumps({"pid": os.getpid(), "result": {"device": cuda.get_current_device().name.decode()}, "calls": {"cuLaunchKernel": LAUNCHES}}), flush=True)
