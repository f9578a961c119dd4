# SPDX-License-Identifier: Apache-2.0
"""HTTP/1.1 with keep-alive, and server-sent events in chunks, sent as uvicorn sends them: the
headers, each event and the end are a send each."""

import asyncio
from http import HTTPStatus

from lab.process import now


class Request:
    """A request. received is when its first bytes were read."""

    def __init__(self, head, body, received):
        first, *lines = head.decode("latin-1").rstrip().split("\r\n")
        self.method, self.path, _ = first.split(" ", 2)
        self.headers = headers(lines)
        self.body, self.received = body, received


def headers(lines):
    pairs = (line.partition(":") for line in lines)
    return {name.strip().lower(): value.strip() for name, _, value in pairs}


class Reader(asyncio.StreamReader):
    """A reader that keeps when the first bytes of a request came."""
    received = 0

    def feed_data(self, data):
        self.received = self.received or now()
        super().feed_data(data)


class Peer:
    """The client at the other end of a connection."""

    def __init__(self, writer):
        self.writer = writer

    async def send(self, data):
        self.writer.write(data)
        await self.writer.drain()

    async def reply(self, status, kind, body):
        await self.send(b"HTTP/1.1 %d %b\r\ncontent-type: %b\r\ncontent-length: %d\r\n\r\n%b" % (
            status, HTTPStatus(status).phrase.encode(), kind.encode(), len(body), body))

    async def stream(self):
        """Sends the headers of an answer in chunks."""
        await self.send(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n")

    async def event(self, data, sent):
        """Adds the time to sent, and sends one event."""
        event = b"data: " + data.encode() + b"\n\n"
        sent.append(now())
        await self.send(b"%x\r\n%b\r\n" % (len(event), event))

    async def end(self):
        event = b"data: [DONE]\n\n"
        await self.send(b"%x\r\n%b\r\n" % (len(event), event))
        await self.send(b"0\r\n\r\n")


async def listen(sock, answer):
    """Answers the requests of all connections with answer(request, peer)."""

    async def connected(reader, writer):
        writer.transport.set_write_buffer_limits(high=0)  # drain waits until the kernel has everything
        peer = Peer(writer)
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = int(headers(head.decode("latin-1").split("\r\n")[1:]).get("content-length", 0))
                body = await reader.readexactly(length)
                received, reader.received = reader.received, 0
                await answer(Request(head, body, received), peer)
        except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, ConnectionError, ValueError):
            pass  # the client is gone, or sends no HTTP
        finally:
            writer.close()

    loop = asyncio.get_running_loop()
    return await loop.create_server(lambda: asyncio.StreamReaderProtocol(Reader(), connected), sock=sock, backlog=1024)
