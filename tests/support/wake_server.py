"""A server that wakes devices: TLS with client certificates, requests are recorded."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from aiohttp import web

from support.aiohttp_server import served
from support.certificates import tls_pair


class WakeServer:
    """`url` and `trust` (a PEM file) are for its clients; `client` is the certificate it wants."""

    def __init__(self, url: str, trust: Path, client: Path) -> None:
        self.url = url
        self.trust = trust
        self.client = client
        self.forms: asyncio.Queue[dict[str, str]] = asyncio.Queue()
        """The forms received, each over a connection with the right certificate."""
        self.status = 200
        self.answers = asyncio.Event()
        """Cleared: requests are received and not answered."""
        self.answers.set()

    async def handle(self, request: web.Request) -> web.Response:
        assert request.transport is not None
        assert request.transport.get_extra_info("peercert"), "no client certificate"
        assert request.content_type == "application/x-www-form-urlencoded"
        self.forms.put_nowait({name: str(value) for name, value in (await request.post()).items()})
        await self.answers.wait()
        return web.Response(status=self.status)


@asynccontextmanager
async def wake_server(folder: Path) -> AsyncIterator[WakeServer]:
    """Run one on a free port; its certificates are files in the folder."""
    pems = {}
    for role in ("server", "client"):
        (folder / role).mkdir()
        context, _ = tls_pair(folder / role)
        pems[role] = folder / role / "server.pem"
        if role == "server":
            tls = context
    tls.verify_mode = ssl.CERT_REQUIRED
    tls.load_verify_locations(pems["client"])
    server = WakeServer("", pems["server"], pems["client"])
    app = web.Application()
    app.router.add_post("/wake", server.handle)
    async with served(app, tls) as origin:
        server.url = f"{origin}/wake"
        try:
            yield server
        finally:
            server.answers.set()
