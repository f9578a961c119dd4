# SPDX-License-Identifier: Apache-2.0
"""Processes that turn prompts into tokens, each on its own CPU time."""

import asyncio

from lab.process import spin

TOKEN_ROUNDS = 20       # CPU work for a token
FAULT_ROUNDS = 400_000  # more for each prompt during the fault "tokenizer"


def run(link):
    """Answers each (text, rounds) with the text's number of tokens."""
    while True:
        text, rounds = link.recv()
        tokens = len(text.split())
        spin(tokens * TOKEN_ROUNDS + rounds)
        link.send(tokens)


class Pool:
    def __init__(self, links, fault):
        self.fault, self.turn = fault, 0
        self.workers = [(link, asyncio.Lock()) for link in links]

    async def tokens(self, text):
        """Returns the number of a prompt's tokens. During the fault only one process works."""
        faulty = self.fault.on("tokenizer")
        self.turn += 1
        link, lock = self.workers[0 if faulty else self.turn % len(self.workers)]
        loop = asyncio.get_running_loop()
        async with lock:
            link.send((text, FAULT_ROUNDS if faulty else 0))
            answer = loop.create_future()
            loop.add_reader(link.fileno(), lambda: answer.done() or answer.set_result(None))
            await answer
            loop.remove_reader(link.fileno())
            return link.recv()
