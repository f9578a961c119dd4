# SPDX-License-Identifier: Apache-2.0
"""Another program, which uses every CPU during the fault."""

import os

from clock import Clock
from work import run

clock = Clock()
for _ in range(os.cpu_count() - 1):
    if not os.fork():
        break
print("here", os.getpid(), flush=True)
while True:
    if clock.faulty():
        run("compute", 20)
    else:
        run("sleep", 5)
