# SPDX-License-Identifier: Apache-2.0
"""Another program, which uses every CPU during the fault."""

import os

from clock import Clock
from work import run

clock = Clock()
others = []
for _ in range(os.cpu_count() - 1):
    if not (pid := os.fork()):
        break
    others.append(pid)
else:
    print("here", os.getpid(), *others, flush=True)
while True:
    if clock.faulty():
        run("compute", 20)
    else:
        run("sleep", 5)
