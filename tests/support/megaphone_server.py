"""A source of broadcasts whose versions and faults a test sets."""

import asyncio
import json
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiohttp import web

from support.aiohttp_server import served

MONITOR = "remote-settings/monitor_changes"


class MegaphoneServer:
    """`url` is for its clients."""

    def __init__(self) -> None:
        self.url = ""
        self.versions: dict[str, str] = {}
        self.status = 200
        self.body: bytes | None = None
        """What is answered in place of the versions."""
        self.answers = asyncio.Event()
        """Cleared: requests are received and not answered."""
        self.answers.set()
        self.requests: list[web.BaseRequest] = []
        """Those received."""
        self._received = asyncio.Condition()

    async def handle(self, request: web.Request) -> web.StreamResponse:
        async with self._received:
            self.requests.append(request)
            self._received.notify_all()
        await self.answers.wait()
        body = self.body
        if body is None:
            body = json.dumps({"code": 200, "broadcasts": self.versions}).encode()
        return web.Response(body=body, status=self.status, content_type="application/json")

    async def polled(self, times: int = 2) -> None:
        """Wait for so many requests more; of one worker the first of two may be under way already,
        so that it is the second that gets what is set now.
        """
        wanted = len(self.requests) + times
        async with asyncio.timeout(30), self._received:
            await self._received.wait_for(lambda: len(self.requests) >= wanted)


@asynccontextmanager
async def megaphone_server(
    *, tls: ssl.SSLContext | None = None, **versions: str
) -> AsyncIterator[MegaphoneServer]:
    """Run one on a free port."""
    server = MegaphoneServer()
    server.versions |= versions
    app = web.Application()
    app.router.add_get("/v1/broadcasts", server.handle)
    async with served(app, tls) as origin:
        server.url = f"{origin}/v1/broadcasts"
        try:
            yield server
        finally:
            server.answers.set()
