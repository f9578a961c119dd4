# SPDX-License-Identifier: Apache-2.0
"""A launcher, as torchrun: it starts the job with its arguments, and passes its lines on. ingero
traces the launcher."""

import os
import subprocess
import sys

env = dict(os.environ, LOCAL_RANK="0", OMP_NUM_THREADS="1")
with subprocess.Popen([sys.executable, *sys.argv[1:]], env=env, stdout=subprocess.PIPE, text=True) as job:
    for line in job.stdout:
        print(line.replace(f"ready {job.pid}", f"ready {os.getpid()}"), end="", flush=True)
sys.exit(job.returncode)
