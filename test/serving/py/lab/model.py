# SPDX-License-Identifier: Apache-2.0
"""The model: what a step runs on the simulated GPU."""

import ctypes

import gpu

from lab.process import now, spin

KERNELS = 64              # kernels of a forward pass
PREFILL_NS = 20_000       # GPU time of a prompt's token
DECODE_NS = 2_000_000     # GPU time of a decode step without sequences
SEQUENCE_NS = 20_000      # GPU time that each sequence adds to a decode step
EAGER_ROUNDS = 1500       # CPU work of the framework for a kernel outside a graph
ADAPTER_BYTES = 64 << 20  # an adapter of LoRA
TOKEN_BYTES = 4


class Model:
    def __init__(self, sizes, most, truth, device=0):
        """Captures a graph for each of the batch sizes. A step has at most this many tokens."""
        self.sizes, self.truth, self.graphs, self.adapter = sizes, truth, {}, None
        self.capture_rounds = 0
        self.cuda = gpu.Runtime()
        self.cuda.call("cudaSetDevice", device)
        self.stream = self.cuda.stream()
        self.attention, self.mlp = self.cuda.kernel("flash_fwd_kernel"), self.cuda.kernel("ampere_bf16_gemm")
        self.host, self.device = self.cuda.pinned(most * TOKEN_BYTES), self.cuda.malloc(most * TOKEN_BYTES)
        self.adapters, self.slot = self.cuda.pinned(ADAPTER_BYTES), self.cuda.malloc(ADAPTER_BYTES)
        for size in sizes:
            self.capture(size)

    def forward(self, ns, rounds=0):
        """Launches the kernels of a pass that takes ns on the GPU."""
        for i in range(KERNELS):
            spin(rounds)
            self.cuda.lib.simKernelTime(ctypes.c_ulonglong(ns // KERNELS))
            self.cuda.launch(self.mlp if i % 2 else self.attention, self.stream)

    def capture(self, size):
        """Captures the graph of a batch size, after a pass without it, as vLLM does."""
        begin, ns = now(), DECODE_NS + size * SEQUENCE_NS
        self.forward(ns, EAGER_ROUNDS)
        self.cuda.synchronize(self.stream)
        graph, run = ctypes.c_void_p(), ctypes.c_void_p()
        self.cuda.call("cudaStreamBeginCapture", self.stream, 1)
        spin(self.capture_rounds)
        self.forward(ns, EAGER_ROUNDS)
        self.cuda.call("cudaStreamEndCapture", self.stream, ctypes.byref(graph))
        self.cuda.call("cudaGraphInstantiate", ctypes.byref(run), graph, ctypes.c_ulonglong(0))
        self.cuda.call("cudaGraphDestroy", graph)
        self.graphs[size] = run
        self.truth.add("capture", at=begin, size=size, ms=(now() - begin) / 1e6)

    def drop_graphs(self, rounds):
        """Makes the next use of each graph capture it again, with so much CPU work."""
        self.capture_rounds = rounds
        for run in self.graphs.values():
            self.cuda.call("cudaGraphExecDestroy", run)
        self.graphs = {}

    def use_adapters(self, wanted):
        """Copies the adapters that a step needs to the GPU, which has room for one. Returns the
        number of copies."""
        missing = sorted(wanted - {self.adapter})
        for _ in missing:
            self.cuda.copy(self.slot, self.adapters, ADAPTER_BYTES, gpu.H2D, self.stream)
        if missing:
            self.adapter = missing[-1]
        return len(missing)

    def put(self, tokens):
        self.cuda.copy(self.device, self.host, tokens * TOKEN_BYTES, gpu.H2D, self.stream)

    def sample(self, batch):
        """Copies the sampled tokens to the host and waits for them."""
        self.cuda.copy(self.host, self.device, batch * TOKEN_BYTES, gpu.D2H, self.stream)
        self.cuda.synchronize(self.stream)

    def prefill(self, tokens, batch):
        self.put(tokens)
        self.forward(tokens * PREFILL_NS)
        self.sample(batch)

    def decode(self, batch, missing):
        """Computes one token of each sequence, with the graph of the smallest size that has room.
        With missing, only size 1 has a graph. Returns the size of the padded batch, and whether a
        graph was used."""
        size = next((s for s in self.sizes if s >= batch), None)
        graph = size is not None and (size == 1 or not missing)
        self.put(batch)
        if graph:
            if size not in self.graphs:
                self.capture(size)
            self.cuda.call("cudaGraphLaunch", self.graphs[size], self.stream)
        else:
            self.forward(DECODE_NS + batch * SEQUENCE_NS, EAGER_ROUNDS)
        self.sample(batch)
        return size if graph else batch, graph


class Workers:
    """The model on several GPUs, each with a process (tensor parallelism). All compute each step."""

    def __init__(self, links):
        self.links = links
        self.send("go")
        self.answers()

    def send(self, message):
        for link in self.links:
            link.send(message)

    def answers(self):
        return [link.recv() for link in self.links]

    def __getattr__(self, method):
        def call(*args):
            self.send((method, args))
            return self.answers()[0]
        return call


def work(link, *args):
    """Runs one of the workers. It makes no CUDA call before its first message."""
    link.recv()
    model = Model(*args)
    link.send("up")
    while True:
        method, args = link.recv()
        link.send(getattr(model, method)(*args))
