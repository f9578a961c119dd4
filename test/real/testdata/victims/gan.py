# SPDX-License-Identifier: Apache-2.0
"""Two networks: the generator trains in every fifth step. Now and then the job saves a picture, and
frees memory."""

import gc
import os
import zlib

import torch
from clock import Clock
from model import WIDTH
from torch import nn

NOISE, SIZE = 16, 16


class Gan:
    def __init__(self):
        self.make = nn.Sequential(nn.Linear(NOISE, 128), nn.LeakyReLU(0.2), nn.Linear(128, WIDTH), nn.Tanh()).cuda()
        self.judge = nn.Sequential(nn.Linear(WIDTH, 128), nn.LeakyReLU(0.2), nn.Linear(128, 1)).cuda()
        self.optimizers = [torch.optim.Adam(net.parameters(), 2e-4) for net in (self.judge, self.make)]

    def fake(self):
        return self.make(torch.rand(SIZE, NOISE).cuda())

    def loss(self, x, real):
        return nn.functional.binary_cross_entropy_with_logits(self.judge(x), torch.full((SIZE, 1), float(real)).cuda())

    def step(self, which, loss):
        self.optimizers[which].zero_grad()
        loss.backward()
        self.optimizers[which].step()


def picture(pixels):
    with open("/srv/picture", "wb") as f:
        f.write(zlib.compress(pixels))


def main():
    clock, gan, pixels, n, going = Clock(), Gan(), os.urandom(700_000), 0, True
    while going:
        loss = gan.loss(torch.rand(SIZE, WIDTH).cuda(), True) + gan.loss(gan.fake().detach(), False)
        gan.step(0, loss)
        n += 1
        if n % 5 == 0:
            gan.step(1, gan.loss(gan.fake(), True))
        if n % 10 == 0:
            print(loss.item())
        if n % 60 == 0:
            picture(pixels)
            gc.collect()
            torch.cuda.synchronize()
            torch.cuda.empty_cache()
        going = clock.step()
    clock.tell()


if __name__ == "__main__":
    main()
