# SPDX-License-Identifier: Apache-2.0
"""Another program, which puts requests into a directory, in bursts."""

import itertools
import json
import os
import random

from work import run

os.makedirs("/srv/requests")
print("here", os.getpid(), flush=True)
random.seed(3)
left = 0
for n in itertools.count():
    with open("/srv/new", "w") as f:
        json.dump({"batches": 4}, f)
    os.rename("/srv/new", f"/srv/requests/{n:06}.json")
    if left == 0:
        run("sleep", random.uniform(200, 1600))
        left = random.randint(2, 12)
    left -= 1
