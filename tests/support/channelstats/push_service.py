"""A push service of one process, and browsers that subscribed at it.

It answers as it is told to, one answer after the other, and 201 when nothing is said. What it takes
is decrypted with the browser's keys by `http_ece`.
"""

import asyncio
import base64
import json
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import http_ece
from aiohttp import web
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from channelstats.tables.sending import Subscription
from support.aiohttp_server import served

Answer = int | tuple[int, dict[str, str]]


def base64url(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


class Browser:
    """The keys of one subscription, and what came for it."""

    def __init__(self, endpoint: str) -> None:
        self.endpoint = endpoint
        self._private = ec.generate_private_key(ec.SECP256R1())
        self._auth = os.urandom(16)
        self.got: list[Any] = []
        """What it was told, decrypted."""
        self.headers: list[dict[str, str]] = []

    @property
    def json(self) -> dict[str, Any]:
        """What `PushSubscription.toJSON()` gives."""
        point = self._private.public_key().public_bytes(
            Encoding.X962, PublicFormat.UncompressedPoint
        )
        keys = {"p256dh": base64url(point), "auth": base64url(self._auth)}
        return {"endpoint": self.endpoint, "expirationTime": None, "keys": keys}

    def subscription(self, **others: Any) -> Subscription:
        return Subscription(self.endpoint, **self.json["keys"], **others)

    def decrypted(self, body: bytes) -> Any:
        plain = http_ece.decrypt(
            body, private_key=self._private, auth_secret=self._auth, version="aes128gcm"
        )
        return json.loads(plain)


@dataclass
class PushService:
    """``answers`` by endpoint; for each request ``on_request`` is called, and ``gate`` is waited
    for before it is answered.
    """

    origin: str
    browsers: dict[str, Browser] = field(default_factory=dict)
    answers: dict[str, list[Answer]] = field(default_factory=dict)
    on_request: Callable[[], object] = lambda: None
    gate: asyncio.Event | None = None
    requests: int = 0
    arrived: asyncio.Event = field(default_factory=asyncio.Event)

    def browser(self, *answers: Answer) -> Browser:
        """A new browser; those are the answers to what is sent to it."""
        browser = Browser(f"{self.origin}/push/{len(self.browsers)}")
        self.browsers[browser.endpoint] = browser
        self.answers[browser.endpoint] = list(answers)
        return browser

    async def take(self, request: web.Request) -> web.Response:
        endpoint = f"{self.origin}{request.path}"
        body = await request.read()
        self.requests += 1
        self.on_request()
        self.arrived.set()
        if self.gate is not None:
            await self.gate.wait()
        waiting = self.answers[endpoint]
        answer = waiting.pop(0) if waiting else 201
        status, headers = (answer, {}) if isinstance(answer, int) else answer
        if status == 201:
            browser = self.browsers[endpoint]
            browser.got.append(browser.decrypted(body))
            browser.headers.append(dict(request.headers))
        return web.Response(status=status, headers=headers)


@asynccontextmanager
async def push_service() -> AsyncIterator[PushService]:
    service = PushService("")
    app = web.Application()
    app.router.add_post("/push/{number}", service.take)
    async with served(app) as service.origin:
        yield service
