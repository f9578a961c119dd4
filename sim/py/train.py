#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A training loop in Python, with the call depth of a real one: loop, step, model,
layers. Prints one JSON line of exact counts."""

import argparse
import json
import os
import random
import threading
import time

import gpu


class Layer:
    def __init__(self, cuda, name):
        self.cuda = cuda
        self.kernel = cuda.kernel(name)

    def __call__(self, stream):
        self.forward(stream)

    def forward(self, stream):
        self.cuda.launch(self.kernel, stream)


class Block:
    def __init__(self, cuda, layers, depth):
        self.inner = Block(cuda, layers, depth - 1) if depth > 1 else None
        self.layers = [] if self.inner else [Layer(cuda, f"layer{i}") for i in range(layers)]

    def forward(self, stream):
        if self.inner:
            self.inner.forward(stream)
        for layer in self.layers:
            layer(stream)


class Trainer:
    def __init__(self, cuda, args, seed):
        self.cuda, self.args = cuda, args
        self.random = random.Random(seed)
        self.stream = cuda.stream()
        self.host = cuda.pinned(args.batch)
        self.device = cuda.malloc(args.batch)
        self.model = Block(cuda, args.launches, args.depth)

    def load(self):
        self.cuda.copy(self.device, self.host, self.args.batch, gpu.H2D, self.stream)

    def step(self, number):
        self.load()
        self.model.forward(self.stream)
        self.cuda.synchronize(self.stream)
        if self.args.alloc_every and number % self.args.alloc_every == 0:
            self.cuda.free(self.cuda.malloc(65536 + self.random.randrange(1 << 22)))

    def run(self, deadline):
        done = 0
        while done < self.args.steps and time.monotonic() < deadline:
            done += 1
            self.step(done)
        return done


def main():
    ap = argparse.ArgumentParser(description=__doc__)
    ap.add_argument("--steps", type=int, default=50, help="training steps of each thread")
    ap.add_argument("--seconds", type=float, default=float("inf"), help="number of seconds to run")
    ap.add_argument("--launches", type=int, default=20, help="kernel launches a step")
    ap.add_argument("--threads", type=int, default=1, help="threads, each with a stream of its own")
    ap.add_argument("--depth", type=int, default=4, help="nested blocks around the layers")
    ap.add_argument("--batch", type=int, default=1 << 20, help="bytes of a batch")
    ap.add_argument("--alloc-every", type=int, default=25, help="number of steps between two pairs of an allocation and a free; 0: no such pairs")
    ap.add_argument("--kernel-us", type=int, help="GPU time of a kernel in us")
    ap.add_argument("--seed", type=int, default=1, help="seed of the sizes")
    ap.add_argument("--lib", help="the runtime to load (libcudart.so.12 beside this file)")
    ap.add_argument("--hold", action="store_true", help='print "ready PID" and wait for a line first')
    args = ap.parse_args()
    if args.kernel_us is not None:
        os.environ["INGERO_SIM_KERNEL_NS"] = str(args.kernel_us * 1000)
    gpu.hold(args.hold)
    deadline = time.monotonic() + args.seconds
    runs = [gpu.Runtime(args.lib) for _ in range(args.threads)]
    steps = [0] * args.threads

    def work(i):
        steps[i] = Trainer(runs[i], args, args.seed + i).run(deadline)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(1, args.threads)]
    for t in threads:
        t.start()
    work(0)
    for t in threads:
        t.join()
    total = {"program": "train.py", "pid": os.getpid(), "steps": sum(steps), "errors": 0}
    for r in runs:
        for name, n in r.counts.items():
            total[name] = total.get(name, 0) + n
    print(json.dumps(total), flush=True)


if __name__ == "__main__":
    main()
