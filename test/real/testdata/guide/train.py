# SPDX-License-Identifier: Apache-2.0
"""The training loop of docs/guides/pytorch.md. Each option is one line of its loader or of its checkpoints."""

import argparse
import os
import threading
import zlib

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

WIDTH, BATCH, FILES, SIZE = 64, 16, 64, 1 << 19
DIR = "/srv"  # of the samples and the checkpoint


class Samples(Dataset):
    """Files with a sample each, packed or not, and in the page cache or not."""

    def __init__(self, options):
        self.options = options

    def __len__(self):
        return BATCH * self.options.steps

    def __getitem__(self, i):
        pixels = self.unpack(self.read(i % FILES))
        return torch.frombuffer(pixels, dtype=torch.float32)[:WIDTH], i % 10

    def read(self, i):
        with open(f"{self.options.dir}/samples/{i}", "rb") as f:
            if self.options.data == "cold":  # as where there is more data than memory
                os.posix_fadvise(f.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            return f.read()

    def unpack(self, data):
        if self.options.data == "packed":
            data = zlib.decompress(data)
        return bytearray(data)


def write_samples(to, packed):
    os.makedirs(to, exist_ok=True)
    for i in range(FILES):
        pixels = os.urandom(SIZE).translate(bytes(i & 63 for i in range(256)))
        with open(f"{to}/{i}", "wb") as f:
            f.write(zlib.compress(pixels, 1) if packed else pixels)
            os.fsync(f.fileno())


def save(state, path):
    with open(path, "wb") as f:
        torch.save(state, f)
        f.flush()
        os.fsync(f.fileno())


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--data", choices=["packed", "unpacked", "cold"], default="unpacked")
    p.add_argument("--workers", type=int, default=1)
    p.add_argument("--save", choices=["never", "waits", "beside"], default="never")
    p.add_argument("--every", type=int, default=100)
    p.add_argument("--steps", type=int, default=400)
    p.add_argument("--dir", default=DIR)
    o = p.parse_args()
    write_samples(f"{o.dir}/samples", o.data == "packed")
    net = nn.Sequential(nn.Linear(WIDTH, 256), nn.ReLU(), nn.Linear(256, 10)).cuda()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    weights = torch.zeros(32 << 20)  # of a larger model
    for n, (x, y) in enumerate(DataLoader(Samples(o), batch_size=BATCH, num_workers=o.workers)):
        loss = nn.functional.cross_entropy(net(x.cuda()), y.cuda())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        loss.item()
        if o.save != "never" and n % o.every == o.every - 1:
            if o.save == "waits":
                save({"net": net.state_dict(), "weights": weights}, f"{o.dir}/checkpoint")
            else:
                state = {"net": {k: v.cpu() for k, v in net.state_dict().items()}, "weights": weights.clone()}
                threading.Thread(target=save, args=(state, f"{o.dir}/checkpoint")).start()


if __name__ == "__main__":
    main()
