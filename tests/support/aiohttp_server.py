"""An aiohttp application on a free port, while a test runs."""

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiohttp import web

STOP_TIMEOUT = 0.1
"""Seconds in which requests in progress are answered at the end."""


@asynccontextmanager
async def served(app: web.Application, tls: ssl.SSLContext | None = None) -> AsyncIterator[str]:
    """Serve it on loopback; the origin of its URLs."""
    runner = web.AppRunner(app, shutdown_timeout=STOP_TIMEOUT)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls).start()
        yield f"http{'s' if tls else ''}://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()
