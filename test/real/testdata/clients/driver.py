# SPDX-License-Identifier: Apache-2.0
"""pycuda: a PTX module, launches, copies, events."""

import json
import os

import numpy as np
import pycuda.driver as drv

LAUNCHES = 30
PTX = b"""
.version 8.4
.target sm_80
.address_size 64
.visible .entry _Z5scalePffi(.param .u64 p, .param .f32 by, .param .u32 n) { ret; }
"""


def run(function, data, stream):
    for _ in range(LAUNCHES):
        function(data, np.float32(2), np.int32(1024), block=(256, 1, 1), grid=(4, 1), stream=stream)  # the line that launches
    stream.synchronize()


if __name__ == "__main__":
    drv.init()
    device = drv.Device(0)
    context = device.make_context()
    stream = drv.Stream()
    host = drv.pagelocked_empty(1024, np.float32)
    data = drv.mem_alloc(host.nbytes)
    drv.memcpy_htod_async(data, host, stream)
    run(drv.module_from_buffer(PTX).get_function("_Z5scalePffi"), data, stream)
    begin, end = drv.Event(), drv.Event()
    begin.record(stream)
    end.record(stream)
    end.synchronize()
    data.free()
    drv.start_profiler()
    drv.stop_profiler()
    print(json.dumps({
        "pid": os.getpid(), "result": {
            "device": device.name(), "capability": device.compute_capability(), "bus": device.pci_bus_id(),
            "threads": device.get_attribute(drv.device_attribute.MAX_THREADS_PER_BLOCK)},
        "calls": {"cuLaunchKernel": LAUNCHES, "cuStreamSynchronize": 1, "cuMemAlloc": 1, "cuMemFree": 1, "cuEventRecord": 2}}), flush=True)
    context.pop()
    context.detach()
