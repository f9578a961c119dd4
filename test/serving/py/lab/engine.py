# SPDX-License-Identifier: Apache-2.0
"""The engine's process: the scheduler, which has the model run a step at a time."""

from collections import deque

from lab.model import Model, Workers
from lab.process import now, spin

BLOCK_TOKENS = 16
SCHEDULER_ROUNDS = 10_000  # work of the fault "scheduler" for each request in each step
KV_SHARE = 128             # the fault "kv" leaves one block in this many
COLD_ROUNDS = 2_000_000    # work of a first use during the fault "cold-start"
ADAPTERS = 4               # adapters that requests use during the fault "lora"


class Request:
    def __init__(self, number, prompt, wanted):
        self.number, self.prompt, self.wanted = number, prompt, wanted
        self.made = 0      # tokens generated
        self.computed = 0  # tokens whose keys and values are in the cache
        self.blocks = 0
        self.times = {"queued": now(), "preempted": 0}

    def left(self):
        return self.prompt + self.made - self.computed

    def decodes(self):
        return self.made > 0 and self.left() == 1


class Engine:
    def __init__(self, link, o, fault, truth, model):
        self.link, self.o, self.fault, self.truth, self.model = link, o, fault, truth, model
        self.waiting, self.running = deque(), []
        self.used = self.preemptions = self.steps = 0
        self.prefilled = False  # the last step was a prefill
        self.cold = False

    def run(self):
        while True:
            while not self.waiting and not self.running or self.link.poll():
                self.take(*self.link.recv())
            self.step()

    def take(self, what, number, *args):
        if what == "add":
            self.waiting.append(Request(number, *args))
            return
        for r in [r for r in [*self.waiting, *self.running] if r.number == number]:
            self.release(r)
            (self.running if r in self.running else self.waiting).remove(r)
        self.link.send(([], self.stats()))

    def limit(self):
        blocks = self.o.num_gpu_blocks_override
        return max(blocks // KV_SHARE, 1) if self.fault.on("kv") else blocks

    def stats(self):
        return {"running": len(self.running), "waiting": len(self.waiting), "preemptions": self.preemptions,
                "usage": min(self.used / self.limit(), 1)}

    def grow(self, r, tokens, force=False):
        """Gives a request the blocks for more tokens, if there are enough."""
        more = -(-(r.computed + tokens) // BLOCK_TOKENS) - r.blocks
        if more > 0 and self.used + more > self.limit() and not force:
            return False
        self.used += max(more, 0)
        r.blocks += max(more, 0)
        return True

    def release(self, r):
        self.used -= r.blocks
        r.blocks = r.computed = 0

    def preempt(self, r):
        self.running.remove(r)
        self.release(r)
        r.times["preempted"] += 1
        self.preemptions += 1
        self.waiting.appendleft(r)

    def reserve(self, r, tokens):
        """Gives a running request blocks, those of the youngest requests if need be. It may be
        preempted itself. The only one always gets them, so that it ends."""
        while not self.grow(r, tokens, force=len(self.running) == 1):
            youngest = self.running[-1]
            self.preempt(youngest)
            if youngest is r:
                return False
        return True

    def next_prefill(self):
        """Returns the requests whose prompts the next step computes, with their tokens."""
        chunked, budget, picks = self.o.enable_chunked_prefill, self.o.max_num_batched_tokens, []
        if chunked and self.prefilled and any(r.decodes() for r in self.running):
            return picks
        for r in list(self.running):
            if budget > 0 and r in self.running and not r.decodes():
                n = min(r.left(), budget)
                if self.reserve(r, n):
                    picks.append((r, n))
                    budget -= n
        while self.waiting and budget > 0 and len(self.running) < self.o.max_num_seqs:
            r = self.waiting[0]
            n = min(r.left(), budget) if chunked else r.left()
            if picks and n > budget or not self.grow(r, n, force=not self.running):
                break
            r.times.setdefault("scheduled", now())
            self.running.append(self.waiting.popleft())
            picks.append((r, n))
            budget -= n
        return picks

    def step(self):
        begin = now()
        if self.fault.on("scheduler"):
            spin(SCHEDULER_ROUNDS * (len(self.running) + len(self.waiting)))
        if self.fault.on("cold-start") and not self.cold:
            self.cold = True
            self.model.drop_graphs(COLD_ROUNDS)
        picks = self.next_prefill()
        self.prefilled = bool(picks)
        if not picks:
            picks = [(r, 1) for r in list(self.running) if r in self.running and r.decodes() and self.reserve(r, 1)]
        if not picks:
            return  # all were preempted
        scheduled, swaps = now(), 0
        if self.fault.on("lora"):
            swaps = self.model.use_adapters({r.number % ADAPTERS for r, _ in picks})
        batch, tokens = len(picks), sum(n for _, n in picks)
        if self.prefilled:
            padded, graph = batch, False
            self.model.prefill(tokens, batch)
        else:
            padded, graph = self.model.decode(batch, self.fault.on("graph-miss"))
        self.steps += 1
        self.truth.add("step", at=begin, step=self.steps, phase="prefill" if self.prefilled else "decode", batch=batch,
                       padded=padded, tokens=tokens, graph=graph, swaps=swaps, schedule_ms=(scheduled - begin) / 1e6,
                       ms=(now() - begin) / 1e6, requests=[r.number for r, _ in picks])
        self.finish(picks)

    def finish(self, picks):
        """Sends the tokens of a step to the server."""
        outputs = []
        for r, n in picks:
            r.computed += n
            if r.left():
                continue  # a part of a prompt
            r.made += 1
            r.times.setdefault("first", now())
            last = r.made == r.wanted
            if last:
                r.times["last"] = now()
                self.running.remove(r)
                self.release(r)
            outputs.append((r.number, r.made, r.times if last else None))
        self.link.send((outputs, self.stats()))


def run(link, o, fault, truth, workers):
    """Runs the engine. It makes no CUDA call before the server's first message, and none with workers."""
    link.recv()
    engine = Engine(link, o, fault, truth, Workers(workers) if workers else Model(o.sizes, o.most, truth))
    link.send("up")
    engine.run()
