# SPDX-License-Identifier: Apache-2.0
"""An inference server: a pool of threads answers requests. Faults are in what the threads share."""

import argparse
import multiprocessing
import os
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor

from clock import Clock
from work import run


def listen():
    s = socket.create_server(("127.0.0.1", 0))
    return s, s.getsockname()


def client(address):
    """Sends a request, waits for the answer, and repeats."""
    with socket.create_connection(address) as s:
        while s.send(b"r") and s.recv(1):
            run("sleep", 5)


def backend(s, clock, o):
    """Answers the server's queries, as a remote service would."""
    c, _ = s.accept()
    while c.recv(1):
        if o.backend and clock.faulty():
            run(o.backend, o.ms)
        c.send(b"a")


class Server:
    def __init__(self, o, clock, upstream):
        import torch
        self.o, self.clock, self.upstream, self.lock, self.up = o, clock, upstream, threading.Lock(), threading.Lock()
        self.torch, self.x = torch, torch.ones(256, 256, device="cuda")

    def answer(self):
        with self.lock:
            pass
        with self.up:
            self.upstream.send(b"q")
            self.upstream.recv(1)
        for _ in range(4):
            y = self.torch.relu(self.x @ self.x)
        y.sum().item()

    def serve(self, c):
        with c:
            while not self.clock.over() and c.recv(1):
                begin = time.time_ns()
                self.answer()
                self.clock.add(begin, time.time_ns())
                c.send(b"a")

    def beside(self):
        """A thread of the server that sometimes does other work."""
        while True:
            if self.o.hold and self.clock.faulty():
                with self.lock:
                    run(self.o.hold, self.o.ms)
            elif self.o.beside and self.clock.faulty():
                run(self.o.beside, self.o.ms)
            run("sleep", 2)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--hold")
    p.add_argument("--backend")
    p.add_argument("--beside")
    p.add_argument("--ms", type=float, default=80)
    p.add_argument("--clients", type=int, default=1)
    o = p.parse_args()
    clock, (front, address), (behind, upstream) = Clock(), listen(), listen()
    context = multiprocessing.get_context("fork")
    others = [context.Process(target=client, args=(address,), daemon=True) for _ in range(o.clients)]
    others.append(context.Process(target=backend, args=(behind, clock, o), daemon=True))
    for other in others:
        other.start()
    server = Server(o, clock, socket.create_connection(upstream))
    threading.Thread(target=server.beside, daemon=True).start()
    with ThreadPoolExecutor(o.clients) as pool:
        for _ in range(o.clients):
            pool.submit(server.serve, front.accept()[0])
    clock.tell(culprits=[others[-1].pid if o.backend else os.getpid()])
    os._exit(0)


if __name__ == "__main__":
    main()
