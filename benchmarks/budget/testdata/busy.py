# SPDX-License-Identifier: Apache-2.0
"""Makes sheddable calls of all kinds as fast as Python can, beside a thread that
sends to itself by TCP: busy.py DIRECTORY-OF-THE-SIMULATED-STACK."""

import os
import socket
import sys
import threading

sys.path.insert(0, sys.argv[1])
os.environ["INGERO_SIM_ZERO"] = "1"
import gpu  # noqa: E402


def sends():
    """Makes many small writes and reads, for the host's BPF programs."""
    server = socket.create_server(("127.0.0.1", 0))
    client = socket.create_connection(server.getsockname())
    peer, _ = server.accept()
    while True:
        client.send(b"x")
        peer.recv(1)


cuda = gpu.Runtime()
stream, host, device = cuda.stream(), cuda.pinned(4096), cuda.malloc(4096)
kernel = cuda.kernel("busy")
threading.Thread(target=sends, daemon=True).start()
print("ready", flush=True)
while True:
    for _ in range(100):
        cuda.launch(kernel, stream)
        cuda.copy(device, host, 256, gpu.H2D, stream)
    cuda.synchronize(stream)
