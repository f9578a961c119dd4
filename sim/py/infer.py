#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""An inference server in Python without a network. Requests arrive at random times; each copies
its input in, launches kernels and copies the answer out. Prints one JSON line."""

import argparse
import json
import os
import random
import time

import gpu


class Model:
    def __init__(self, cuda, args):
        self.cuda, self.args = cuda, args
        self.stream = cuda.stream()
        self.inp = cuda.pinned(args.input)
        self.out = cuda.pinned(args.output)
        self.device = cuda.malloc(max(args.input, args.output))
        self.kernels = [cuda.kernel("attention"), cuda.kernel("mlp")]

    def preprocess(self):
        self.cuda.copy(self.device, self.inp, self.args.input, gpu.H2D, self.stream)

    def forward(self):
        for i in range(self.args.launches):
            self.cuda.launch(self.kernels[i % 2], self.stream)

    def postprocess(self):
        self.cuda.copy(self.out, self.device, self.args.output, gpu.D2H, self.stream)
        self.cuda.synchronize(self.stream)


def handle(model):
    model.preprocess()
    model.forward()
    model.postprocess()


def main():
    ap = argparse.ArgumentParser(description=__doc__)
    ap.add_argument("--requests", type=int, default=50, help="requests to serve")
    ap.add_argument("--seconds", type=float, default=float("inf"), help="number of seconds to run")
    ap.add_argument("--rate", type=float, default=50, help="requests a second on average; 0: no gaps")
    ap.add_argument("--launches", type=int, default=8, help="kernel launches a request")
    ap.add_argument("--input", type=int, default=262144, help="bytes copied to the GPU a request")
    ap.add_argument("--output", type=int, default=16384, help="bytes copied back a request")
    ap.add_argument("--kernel-us", type=int, help="GPU time of a kernel in us")
    ap.add_argument("--seed", type=int, default=1, help="seed of the arrival times")
    ap.add_argument("--lib", help="the runtime to load (libcudart.so.12 beside this file)")
    ap.add_argument("--hold", action="store_true", help='print "ready PID" and wait for a line first')
    args = ap.parse_args()
    if args.kernel_us is not None:
        os.environ["INGERO_SIM_KERNEL_NS"] = str(args.kernel_us * 1000)
    gpu.hold(args.hold)
    cuda = gpu.Runtime(args.lib)
    model = Model(cuda, args)
    rng = random.Random(args.seed)
    deadline = time.monotonic() + args.seconds
    served, worst = 0, 0.0
    while served < args.requests and time.monotonic() < deadline:
        if args.rate:
            time.sleep(rng.expovariate(args.rate))
        begin = time.monotonic()
        handle(model)
        worst = max(worst, time.monotonic() - begin)
        served += 1
    print(json.dumps({"program": "infer.py", "pid": os.getpid(), "requests": served, "errors": 0,
                      "worst_ns": int(worst * 1e9), **cuda.counts}), flush=True)


if __name__ == "__main__":
    main()
