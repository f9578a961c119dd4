# SPDX-License-Identifier: Apache-2.0
"""The engine's schedule, step by step, the choice of a graph, and the window of a fault."""

import argparse
import unittest
from unittest import mock

from lab.engine import Engine
from lab.model import Model
from lab.process import Fault


class Parts:
    """A link, a fault, a truth and a model that keep what they are sent."""

    def __init__(self, fault=None):
        self.fault, self.steps, self.tokens, self.times = fault, [], {}, []

    def on(self, name):
        return name == self.fault

    def add(self, kind, **fields):
        self.steps.append(fields)

    def send(self, message):
        for number, made, times in message[0]:
            self.tokens[number] = self.tokens.get(number, 0) + 1
            assert made == self.tokens[number]
            if times:
                self.times.append(times)
        self.stats = message[1]

    def prefill(self, tokens, batch):
        pass

    def decode(self, batch, missing):
        return batch, False


class Schedule(unittest.TestCase):
    def engine(self, fault=None, **options):
        self.parts = p = Parts(fault)
        o = argparse.Namespace(**{"max_num_seqs": 8, "max_num_batched_tokens": 64, "num_gpu_blocks_override": 1280,
                                  "enable_chunked_prefill": True, **options})
        return Engine(p, o, p, p, p)

    def finish(self, engine):
        while engine.waiting or engine.running:
            engine.step()
        self.assertEqual((engine.used, self.parts.stats["usage"]), (0, 0))

    def phases(self):
        return [(s["phase"], s["tokens"], s["requests"]) for s in self.parts.steps]

    def test_prefill_comes_before_decode(self):
        e = self.engine()
        e.take("add", 1, 10, 2)
        e.take("add", 2, 20, 3)
        self.finish(e)
        self.assertEqual(self.phases(), [("prefill", 30, [1, 2]), ("decode", 2, [1, 2]), ("decode", 1, [2])])

    def test_a_long_prompt_is_computed_in_parts_between_decodes(self):
        e = self.engine()
        e.take("add", 1, 10, 3)
        e.step()
        e.take("add", 2, 100, 1)
        self.finish(e)
        self.assertEqual(self.phases(), [("prefill", 10, [1]), ("decode", 1, [1]), ("prefill", 64, [2]), ("decode", 1, [1]), ("prefill", 36, [2])])

    def test_without_chunks_a_long_prompt_is_one_step(self):
        e = self.engine(enable_chunked_prefill=False)
        e.take("add", 1, 10, 2)
        e.take("add", 2, 100, 1)
        self.finish(e)
        self.assertEqual(self.phases(), [("prefill", 10, [1]), ("prefill", 100, [2]), ("decode", 1, [1])])

    def test_a_full_cache_preempts_the_youngest_request(self):
        e = self.engine("kv")  # 10 blocks
        for number in range(1, 6):
            e.take("add", number, 30, 40)
        self.finish(e)
        self.assertGreater(e.preemptions, 0)
        self.assertEqual(self.parts.stats["preemptions"], e.preemptions)
        self.assertEqual(sum(t["preempted"] for t in self.parts.times), e.preemptions)
        self.assertEqual(self.parts.tokens, dict.fromkeys(range(1, 6), 40))
        ends = [max(i for i, s in enumerate(self.parts.steps) if n in s["requests"]) for n in range(1, 6)]
        self.assertEqual(ends[0], min(ends))

    def test_a_request_larger_than_the_cache_runs_alone(self):
        e = self.engine("kv", num_gpu_blocks_override=1)
        e.take("add", 1, 100, 20)
        e.take("add", 2, 100, 20)
        self.finish(e)
        self.assertEqual(self.parts.tokens, {1: 20, 2: 20})
        self.assertTrue(all(s["batch"] == 1 for s in self.parts.steps))

    def test_the_number_of_running_requests_is_limited(self):
        e = self.engine(max_num_seqs=2)
        for number in range(1, 5):
            e.take("add", number, 4, 5)
        self.finish(e)
        self.assertEqual(max(s["batch"] for s in self.parts.steps), 2)

    def test_an_aborted_request_leaves_nothing(self):
        e = self.engine()
        e.take("add", 1, 10, 50)
        e.take("add", 2, 10, 5)
        e.step()
        e.take("abort", 1)
        self.assertEqual(self.parts.stats["running"], 1)
        e.take("abort", 1)
        self.finish(e)
        self.assertEqual(self.parts.tokens, {1: 1, 2: 5})

    def test_a_batch_is_padded_to_the_next_graph(self):
        parts = Parts()
        model = Model([1, 2, 4], 64, parts)
        self.assertEqual([s["size"] for s in parts.steps], [1, 2, 4])
        for batch, missing, want in ((1, True, (1, True)), (3, False, (4, True)), (3, True, (3, False)), (5, False, (5, False))):
            self.assertEqual(model.decode(batch, missing), want)

    def test_a_fault_has_a_window(self):
        fault = Fault("kv", at=2, length=3)
        self.assertFalse(fault.on("kv"))
        with mock.patch("time.monotonic") as clock:
            clock.return_value = 100
            fault.begin()
            for at, on in ((100, False), (101.5, False), (102, True), (104.5, True), (105, False)):
                clock.return_value = at
                self.assertEqual(fault.on("kv"), on)
                self.assertFalse(fault.on("lora"))


if __name__ == "__main__":
    unittest.main()
