# SPDX-License-Identifier: Apache-2.0
"""Another program, which made the database of samples. Its transactions are long during the fault."""

import array
import os
import sqlite3

from clock import Clock
from work import run

clock, base = Clock(), sqlite3.connect("/srv/samples", isolation_level=None)
base.execute("pragma synchronous = off")
base.execute("create table samples (id integer primary key, x blob, y integer)")
base.execute("begin")
base.executemany("insert into samples values (?, ?, ?)", ((n, array.array("f", [n] * 64).tobytes(), n % 10) for n in range(1000)))
base.execute("commit")
print("here", os.getpid(), flush=True)
while True:
    if clock.faulty():
        base.execute("begin exclusive")
        base.execute("update samples set y = (y + 1) % 10 where id = 0")
        run("sleep", 120)
        base.execute("commit")
    run("sleep", 30)
