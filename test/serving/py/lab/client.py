# SPDX-License-Identifier: Apache-2.0
"""A load generator. It prints a JSON line for each request; times are CLOCK_MONOTONIC in ns."""

import argparse
import json
import random
import socket
import threading
import time

from lab.process import Fault, fault_options, now

RECEIVE_BUFFER = 1  # bytes that the kernel holds for a slow client; it raises this to its minimum
SLOW = 0.01        # seconds that a slow client takes for an event
LONG = 8192        # tokens of a long prompt
out = threading.Lock()


class Connection(threading.Thread):
    """A connection that sends one request after the other."""

    def __init__(self, o, name, fault):
        super().__init__(daemon=True)
        self.o, self.name, self.fault = o, name, fault
        self.random = random.Random(f"{o.seed} {name}")
        self.slow = name == "c0" and o.fault == "slow-client"
        self.sock = socket.socket()
        if self.slow:
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER)
        self.sock.connect(("127.0.0.1", o.port))
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.file = self.sock.makefile("rb", buffering=512)

    def run(self):
        for i in range(self.o.requests):
            if self.o.every:
                time.sleep(self.o.every - time.monotonic() % self.o.every)
            if self.o.rate:
                time.sleep(self.random.expovariate(self.o.rate / self.o.connections))
            self.request(f"{self.name}-{i}", self.random.randint(*self.o.prompt), self.random.randint(*self.o.output))

    def request(self, name, prompt, output):
        body = json.dumps({"model": "lab/tiny", "prompt": "lab " * prompt, "max_tokens": output, "stream": True}).encode()
        entry = {"id": "cmpl-" + name, "prompt_tokens": prompt, "output_tokens": output, "slow": self.slow, "sent": now(), "tokens": []}
        self.sock.sendall(b"POST /v1/completions HTTP/1.1\r\nhost: lab\r\nx-request-id: %b\r\ncontent-type: application/json\r\n"
                          b"content-length: %d\r\n\r\n%b" % (name.encode(), len(body), body))
        entry["status"] = int(self.file.readline().split()[1])
        entry["headers"] = now()
        while self.file.readline() != b"\r\n":
            pass
        for event in self.events():
            if event == b"[DONE]":
                entry["done"] = now()
                continue
            if json.loads(event)["id"] != entry["id"]:
                raise ValueError("the answer to another request")
            entry["tokens"].append(now())
            if self.slow and self.fault.on("slow-client"):
                time.sleep(SLOW)
        with out:
            print(json.dumps(entry), flush=True)

    def events(self):
        """Yields the data of each event; an event is a chunk."""
        while size := int(self.file.readline(), 16):
            chunk = self.file.read(size + 2)
            yield chunk.removeprefix(b"data: ").rstrip()
        self.file.readline()


class LongPrompts(Connection):
    """Another client, whose prompts are long, for the time of the fault."""

    def run(self):
        i = 0
        while any(t.is_alive() for t in self.others):
            if self.fault.on("prefill"):
                self.request(f"{self.name}-{i}", LONG, 1)
                i += 1
            time.sleep(0.01)


def span(text):
    low, _, high = text.partition("-")
    return int(low), int(high or low)


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--port", type=int, required=True, help="port of the server")
    p.add_argument("--connections", type=int, default=4, help="connections")
    p.add_argument("--requests", type=int, default=8, help="requests of each connection")
    p.add_argument("--rate", type=float, default=0, help="requests a second of all connections; 0: no pause after an answer")
    p.add_argument("--every", type=float, default=0, help="seconds between bursts, in which each connection sends a request; 0: no bursts")
    p.add_argument("--prompt", type=span, default=(16, 128), help="tokens of a prompt, as in 16-128")
    p.add_argument("--output", type=span, default=(8, 32), help="tokens of an answer, as in 8-32")
    p.add_argument("--seed", type=int, default=1, help="seed of the lengths and pauses")
    fault_options(p, ("prefill", "slow-client"))
    o = p.parse_args()
    fault = Fault(o.fault, o.at, o.length)
    all_of_them = [Connection(o, f"c{i}", fault) for i in range(o.connections)]
    if o.fault == "prefill":
        long = LongPrompts(o, "long", fault)
        long.others = all_of_them[:]
        all_of_them.append(long)
    fault.begin()
    for c in all_of_them:
        c.start()
    for c in all_of_them:
        c.join()


if __name__ == "__main__":
    main()
