# SPDX-License-Identifier: Apache-2.0
"""A training loop with validation, a thread that logs, and threads that save checkpoints. The fault
is in the report of the validation."""

import argparse
import os
import queue
import threading

import torch
from clock import Clock
from model import WIDTH, Trainer, batch
from work import run

EVERY, SAVE = 10, 20  # steps per validation, validations per checkpoint


def log(events):
    """Writes events to a file, and waits for the disk when there are no more."""
    with open("/srv/events", "w") as f:
        while True:
            print(events.get(), file=f, flush=True)
            if events.empty():
                os.fsync(f.fileno())


def save(state):
    with open("/srv/state", "wb") as f:
        torch.save(state, f)
        f.flush()
        os.fsync(f.fileno())


@torch.no_grad()
def validate(net, samples):
    net.eval()
    right = sum((net(x.cuda()).argmax(1).cpu() == 0).sum().item() for x in samples)
    net.train()
    return right


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--fault")
    p.add_argument("--ms", type=float, default=200)
    o = p.parse_args()
    clock, events = Clock(), queue.Queue()
    threading.Thread(target=log, args=(events,), daemon=True).start()
    trainer, (x, y), samples, n, going = Trainer(), batch(), torch.rand(12, 64, WIDTH), 0, True
    while going:  # each step of the clock includes a validation
        for _ in range(EVERY):
            events.put({"loss": trainer.step(x, y)})
        events.put({"right": validate(trainer.net, samples)})
        if o.fault and clock.faulty():
            run(o.fault, o.ms)  # the report
        if (n := n + 1) % SAVE == 0:
            state = {name: w.cpu() for name, w in trainer.net.state_dict().items()}
            threading.Thread(target=save, args=(state,), daemon=True).start()
        going = clock.step()
    clock.tell()
    os._exit(0)


if __name__ == "__main__":
    main()
