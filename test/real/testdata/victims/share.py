# SPDX-License-Identifier: Apache-2.0
"""torch.multiprocessing: another process makes tensors and holds a lock that the trainer needs."""

import argparse

import torch.multiprocessing as mp
from clock import Clock
from model import Trainer, batch
from work import run


def produce(queue, clock, o):
    while True:
        if o.fault and clock.faulty():
            run(o.fault, o.ms)
        queue.put(batch())


def tidy(lock, clock, o):
    while True:
        if clock.faulty():
            with lock:
                run(o.hold, o.ms)
        run("sleep", 10)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--method", default="fork")
    p.add_argument("--fault")
    p.add_argument("--hold")
    p.add_argument("--ms", type=float, default=120)
    o = p.parse_args()
    context, clock = mp.get_context(o.method), Clock()
    queue, lock = context.Queue(2), context.Lock()
    others = [context.Process(target=produce, args=(queue, clock, o), daemon=True)]
    if o.hold:
        others.append(context.Process(target=tidy, args=(lock, clock, o), daemon=True))
    for other in others:
        other.start()
    trainer, going = Trainer(), True
    while going:
        x, y = queue.get()
        with lock:
            trainer.step(x, y)
        going = clock.step()
    clock.tell(culprits=[others[-1].pid])


if __name__ == "__main__":
    main()
