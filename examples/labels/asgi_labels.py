# SPDX-License-Identifier: Apache-2.0
"""ASGI middleware: app = Labels(app). A label is of a thread, so this is exact for servers that
handle one request at a time in each thread. For others, label the batch where it is computed.

The interface: https://asgi.readthedocs.io/en/latest/specs/www.html
"""
import threading
import uuid

from ingero_labels import label


class Labels:
    def __init__(self, app, tenant_header=b"x-tenant"):
        self.app, self.header = app, tenant_header

    async def __call__(self, scope, receive, send):
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        tid, labels = threading.get_native_id(), {"request": uuid.uuid4()}
        for name, value in scope["headers"]:
            if name == self.header:
                labels["tenant"] = value.decode("latin-1")
        label(tid=tid, **labels)
        try:
            await self.app(scope, receive, send)
        finally:
            label(tid=tid, clear=labels)
