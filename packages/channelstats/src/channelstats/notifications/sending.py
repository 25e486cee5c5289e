"""One message on its way to one push service (RFC 8030, 8188, 8291).

Rule: a push service is a stranger: it is asked once per call, within a time, directly (no proxy of
the environment), its redirections are not followed, and of its answer only the head counts.
"""

import asyncio
import re
from collections.abc import Collection, Mapping
from datetime import UTC
from email.utils import parsedate_to_datetime
from enum import Enum, auto
from http import HTTPStatus
from types import TracebackType
from typing import Final, Self

import aiohttp
import msgspec
from aiohttp.abc import AbstractResolver
from pywebpush import WebPusher

from channelstats.notifications.endpoints import GuardedResolver
from channelstats.notifications.vapid import VapidKey, audience
from channelstats.tables.subscriptions import Subscription
from keytables import Clock

AT_ONCE: Final = 8
"""Messages on their way at a time."""

HEADERS: Final[Mapping[str, str]] = {
    "TTL": str(3 * 86_400),  # seconds that the push service keeps it for a browser that is away
    "Topic": "weekly-report",  # the newest replaces one that still waits there
    "Urgency": "low",  # it may wait until the device is awake and on Wi-Fi
    "Content-Encoding": "aes128gcm",
    "Content-Type": "application/octet-stream",
}

_PATIENCE: Final = aiohttp.ClientTimeout(total=20)
_LONGEST_WAIT: Final = 86_400
_ANSWER: Final = 4096
"""Bytes of an answer that are read, so that its connection can be used again."""

_DIGITS: Final = re.compile(r"[0-9]{1,9}")


class Outcome(Enum):
    TAKEN = auto()
    GONE = auto()
    """The browser will never be reached by this endpoint again."""
    BUSY = auto()
    """The push service cannot take it now."""
    FAILED = auto()
    """It does not want it, or could not be reached."""


class Answer(msgspec.Struct, frozen=True):
    """``wait``: seconds that the push service asked for."""

    outcome: Outcome
    wait: int | None = None


class Sender:
    """Sends to many; to be used as a context manager."""

    def __init__(
        self,
        key: VapidKey,
        contact: str,
        clock: Clock,
        own_hosts: Collection[str] = (),
        resolver: AbstractResolver | None = None,
    ) -> None:
        self._key, self._contact, self._clock = key, contact, clock
        self._resolver = GuardedResolver(own_hosts, resolver)
        self._signatures: dict[str, str] = {}

    async def __aenter__(self) -> Self:
        connector = aiohttp.TCPConnector(limit=AT_ONCE, resolver=self._resolver)
        self._session = aiohttp.ClientSession(
            connector=connector,
            trust_env=False,
            timeout=_PATIENCE,
            cookie_jar=aiohttp.DummyCookieJar(),
        )
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._session.close()
        await self._resolver.close()

    async def send(self, to: Subscription, plaintext: bytes) -> Answer:
        """Send once."""
        headers, body = await asyncio.to_thread(self._sealed, to, plaintext)
        try:
            async with self._session.post(
                to.endpoint, data=body, headers=headers, allow_redirects=False
            ) as response:
                await response.content.read(_ANSWER)
                return answer_of(response.status, response.headers, self._clock())
        except (aiohttp.ClientError, OSError, ValueError):  # TimeoutError is an OSError
            return Answer(Outcome.FAILED)

    def _sealed(self, to: Subscription, plaintext: bytes) -> tuple[dict[str, str], bytes]:
        info = {"endpoint": to.endpoint, "keys": {"p256dh": to.p256dh, "auth": to.auth}}
        body = WebPusher(info).encode(plaintext)["body"]
        return {**HEADERS, "Authorization": self._signature(to.endpoint)}, body

    def _signature(self, endpoint: str) -> str:
        """One for all endpoints of a push service; a run is over long before it expires."""
        origin = audience(endpoint)
        if origin not in self._signatures:
            signed = self._key.authorization(endpoint, self._contact, self._clock())
            self._signatures[origin] = signed
        return self._signatures[origin]


def answer_of(status: int, headers: Mapping[str, str], now: float) -> Answer:
    """What an answer means."""
    if HTTPStatus.OK <= status < HTTPStatus.MULTIPLE_CHOICES:
        return Answer(Outcome.TAKEN)
    if status in (HTTPStatus.NOT_FOUND, HTTPStatus.GONE):
        return Answer(Outcome.GONE)
    if status == HTTPStatus.TOO_MANY_REQUESTS or status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return Answer(Outcome.BUSY, _wait(headers.get("Retry-After", ""), now))
    return Answer(Outcome.FAILED)


def _wait(text: str, now: float) -> int | None:
    """The seconds of a Retry-After, which may be a date."""
    if _DIGITS.fullmatch(text):
        return min(int(text), _LONGEST_WAIT)
    try:
        at = parsedate_to_datetime(text)
    except ValueError:
        return None
    seconds = (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() - now
    return max(0, min(int(seconds), _LONGEST_WAIT))
