# SPDX-License-Identifier: Apache-2.0
"""An inference server on the simulated GPU: its processes are an API server, an engine, perhaps a
worker for each GPU, and a pool of tokenizers."""

import argparse
import asyncio
import json
import os
import socket
import sys
import time

from lab import engine, http, model, tokenizer
from lab.metrics import Metrics
from lab.process import Fault, Truth, fault_options, now, start

FAULTS = ("kv", "scheduler", "tokenizer", "graph-miss", "lora", "cold-start")


class Output(asyncio.Queue):
    """The tokens of a request that the server has still to send."""

    def __init__(self, entry):
        super().__init__()
        self.entry, self.before = entry, 0


class Server:
    def __init__(self, o, link, pool, truth):
        self.o, self.link, self.pool, self.truth = o, link, pool, truth
        self.metrics = Metrics(o.model)
        self.outputs, self.requests, self.created = {}, 0, int(time.time())

    def dispatch(self):
        """Passes the tokens of a step to their requests."""
        try:
            outputs, stats = self.link.recv()
        except (EOFError, ConnectionError):
            os._exit(1)  # the engine is dead
        for gauge, value in (("num_requests_running", stats["running"]), ("num_requests_waiting", stats["waiting"]),
                             ("kv_cache_usage_perc", stats["usage"]), ("num_preemptions_total", stats["preemptions"])):
            self.metrics.values[gauge] = value
        for number, made, times in outputs:
            if number in self.outputs:
                self.count(self.outputs[number], times)
                self.outputs[number].put_nowait((made, times))

    def count(self, output, times):
        """Counts a token when it comes from the engine, however slow the client is, as vLLM does."""
        metrics, entry, at = self.metrics, output.entry, now()
        if output.before:
            metrics.observe("inter_token_latency_seconds", at - output.before)
        else:
            metrics.observe("time_to_first_token_seconds", at - entry["received"])
            metrics.add("prompt_tokens_total", entry["prompt_tokens"])
        metrics.add("generation_tokens_total", 1)
        output.before = at
        if times:
            metrics.observe("e2e_request_latency_seconds", at - entry["received"])
            metrics.observe("request_queue_time_seconds", times["scheduled"] - times["queued"])
            metrics.observe("request_prefill_time_seconds", times["first"] - times["scheduled"])
            metrics.observe("request_decode_time_seconds", times["last"] - times["first"])

    async def answer(self, request, peer):
        """Answers one request."""
        route = request.method, request.path
        if route == ("GET", "/metrics"):
            await peer.reply(200, "text/plain; version=0.0.4", self.metrics.text().encode())
        elif route == ("GET", "/health"):
            await peer.reply(200, "text/plain", b"")
        elif route == ("POST", "/v1/completions"):
            await self.complete(request, peer)
        else:
            await peer.reply(404, "application/json", b'{"error":{"message":"Not Found"}}')

    async def complete(self, request, peer):
        self.requests += 1
        number = self.requests
        try:
            body = json.loads(request.body)
            text = body["prompt"] if "prompt" in body else "lab " * body["prompt_tokens"]
            wanted = int(body.get("max_tokens", 16))
            prompt = await self.pool.tokens(text)
        except (ValueError, KeyError, TypeError, AttributeError):
            prompt = wanted = 0
        if prompt < 1 or wanted < 1 or prompt + wanted > self.o.max_model_len:
            await peer.reply(400, "application/json", b'{"error":{"message":"no prompt, or too many tokens"}}')
            return
        name = "cmpl-" + request.headers.get("x-request-id", str(number))
        entry = {"id": name, "number": number, "prompt_tokens": prompt, "output_tokens": wanted, "received": request.received,
                 "tokenized": now(), "sent": [], "finished": "abort"}
        try:
            if body.get("stream"):
                await peer.stream()
            self.outputs[number] = Output(entry)
            self.link.send(("add", number, prompt, wanted))
            await self.tokens(entry, peer if body.get("stream") else None)
        except ConnectionError:
            self.link.send(("abort", number))
            raise
        finally:
            self.outputs.pop(number, None)
            self.metrics.finished[entry["finished"]] += 1
            self.truth.add("request", **entry)
        if body.get("stream"):
            await peer.end()
        else:
            await peer.reply(200, "application/json", self.chunk(entry, " tok" * wanted, True).encode())

    async def tokens(self, entry, peer):
        """Sends a request's tokens as they come, if a peer is given, and completes its entry."""
        output, times = self.outputs[entry["number"]], None
        while times is None:
            made, times = await output.get()
            if peer:
                await peer.event(self.chunk(entry, " tok", made == entry["output_tokens"]), entry["sent"])
        entry.update(times, finished="length")

    def chunk(self, entry, text, last):
        choice = {"index": 0, "text": text, "logprobs": None, "finish_reason": "length" if last else None, "stop_reason": None}
        return json.dumps({"id": entry["id"], "object": "text_completion", "created": self.created, "model": self.o.model, "choices": [choice]})


def options():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--model", default="lab/tiny", help="name of the model")
    p.add_argument("--port", type=int, default=0, help="port to listen on at 127.0.0.1; 0: any")
    p.add_argument("--truth", default=os.devnull, help="file to append the truth to, in JSON lines")
    p.add_argument("--hold", action="store_true", help="wait for a line on standard input before the first CUDA call")
    p.add_argument("--tokenizers", type=int, default=2, help="tokenizer processes")
    p.add_argument("--send-buffer", type=int, help="bytes that the kernel holds for a client (SO_SNDBUF)")
    p.add_argument("--max-num-seqs", type=int, default=64, help="requests that run at once")
    p.add_argument("--max-num-batched-tokens", type=int, default=2048, help="tokens of a step that computes prompts")
    p.add_argument("--max-model-len", type=int, default=16384, help="tokens of a request")
    p.add_argument("--num-gpu-blocks-override", type=int, default=2048, help="blocks of the KV cache, of 16 tokens")
    p.add_argument("--enable-chunked-prefill", action=argparse.BooleanOptionalAction, default=True, help="compute long prompts in parts")
    p.add_argument("--cudagraph-capture-sizes", type=int, nargs="*", default=[1, 2, 4, 8, 16, 32], dest="sizes", help="batch sizes with a graph")
    p.add_argument("--tensor-parallel-size", type=int, default=1, help="GPUs; if there are several, each has a worker")
    p.add_argument("--distributed-executor-backend", choices=("uni", "mp"), default="uni", help="mp: also a single GPU has a worker")
    fault_options(p, FAULTS)
    o = p.parse_args()
    o.most = max(o.max_num_batched_tokens, o.max_model_len)
    return o


async def serve(o, link, links, fault, truth):
    server = Server(o, link, tokenizer.Pool(links, fault), truth)
    listener = socket.create_server(("127.0.0.1", o.port))
    # Connections inherit both. asyncio sets the first only where it creates the socket.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if o.send_buffer:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, o.send_buffer)
    asyncio.get_running_loop().add_reader(link.fileno(), server.dispatch)
    listening = await http.listen(listener, server.answer)
    fault.begin()
    print("serving", listener.getsockname()[1], flush=True)
    await listening.serve_forever()


def start_workers(o, truth):
    n = o.tensor_parallel_size
    os.environ["INGERO_SIM_DEVICES"] = str(n)
    return [start(f"VLLM::Worker_TP{i}" if n > 1 else "VLLM::Worker", model.work, o.sizes, o.most,
                  Truth(os.devnull) if i else truth, i) for i in range(n)]


def main():
    o = options()
    fault, truth = Fault(o.fault, o.at, o.length), Truth(o.truth)
    workers = start_workers(o, truth) if o.tensor_parallel_size > 1 or o.distributed_executor_backend == "mp" else []
    pid, link = start("VLLM::EngineCore", engine.run, o, fault, truth, [l for _, l in workers])
    pool = [start("VLLM::Tokenizer", tokenizer.run) for _ in range(o.tokenizers)]
    print("ready", json.dumps({"server": os.getpid(), "engine": pid, "workers": [p for p, _ in workers],
                              "tokenizers": [p for p, _ in pool]}), flush=True)
    if o.hold and not sys.stdin.readline():
        return
    link.send("go")
    link.recv()
    asyncio.run(serve(o, link, [l for _, l in pool], fault, truth))
