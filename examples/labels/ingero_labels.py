# SPDX-License-Identifier: Apache-2.0
"""Tell ingero what this process does now. It needs the standard library only, and never waits."""
import json
import os
import socket

_socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
_socket.setblocking(False)
_path = os.environ.get("INGERO_LABEL_SOCKET", "auto")
_paths = ["/run/ingero-labels.sock", "/tmp/ingero-labels.sock"] if _path == "auto" else [_path]


def label(*, tid=0, clear=(), **labels):
    """Set labels: label(step=120, tenant="a"). tid is threading.get_native_id(), 0: the process."""
    message = {"set": {key: str(value) for key, value in labels.items()}, "clear": list(clear), "tid": tid}
    for path in _paths:
        try:
            _socket.sendto(json.dumps(message).encode(), path)
            return True
        except OSError:  # no trace, no permission, or too many messages
            continue
    return False
