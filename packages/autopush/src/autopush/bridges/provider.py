"""HTTP requests to the providers of bridges: for access tokens, and of bridges with few messages.
Those with many use `http2_provider`.

Rule: whatever a provider does, a request ends in a reply that was read to its end or in a
`RouterError`, within its timeout. Nothing of a request or a reply is logged or put into an error.
"""

import asyncio
import ssl
from collections.abc import Mapping
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import Final

import h2  # noqa: F401 - httpx asks for it only when a client is made
import httpx
import orjson
from msgspec import Struct

from autopush.delivery.bridge_contract import RouterError
from autopush.webpush.errors import Errno, Header

MAX_REPLY: Final = 65_536
"""Bytes of a reply; a longer one is cut off and counts as unreadable."""
MAX_CONNECTIONS: Final = 20
"""Of one pool; further requests wait."""
MAX_WAITING: Final = 1000
BUSY_RETRY: Final = 5
"""Seconds, where all connections are at their limit."""
DEFAULT_RETRY: Final = 60
"""Seconds, where a provider is overloaded and does not say how long it will be."""
LONGEST_RETRY: Final = 3600


class Reply(Struct, frozen=True):
    """What a provider answered. `document`: its JSON object, empty if it was something else."""

    status: int
    headers: Mapping[str, str]
    document: Mapping[str, object]


class Provider:
    """One provider's API, over a pool of connections that is kept open.

    `timeout`: seconds to wait for a free connection, and then for each step of a request;
    `max_connections`: of the pool; `tls`: with a certificate where the provider wants one.
    """

    def __init__(
        self,
        *,
        timeout: float = 3.0,
        max_connections: int = MAX_CONNECTIONS,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._timeout = timeout
        self._room = asyncio.Semaphore(max_connections)
        self._waiting = 0
        self._client = httpx.AsyncClient(
            http2=True,
            verify=tls or True,
            timeout=timeout,
            follow_redirects=False,
            limits=httpx.Limits(
                max_connections=max_connections, max_keepalive_connections=max_connections
            ),
        )

    async def post(
        self,
        url: str,
        *,
        headers: Mapping[str, str],
        json: object = None,
        form: Mapping[str, str] | None = None,
        idempotent: bool = False,
    ) -> Reply:
        """Send a request with a JSON body, or a form. `idempotent`: one that arrives twice does no
        more harm than once, so that it is repeated on another connection if the first one ends.

        :raises RouterError: 502/902, no connection, or no whole reply; 502/903, not in time;
            503/201, no connection was free in that time
        """
        if self._waiting >= MAX_WAITING:
            raise busy()
        self._waiting += 1
        try:
            async with asyncio.timeout(self._timeout):
                await self._room.acquire()
        except TimeoutError:
            raise busy() from None
        finally:
            self._waiting -= 1
        try:
            return await self._post(url, headers, json, form, repeats=int(idempotent))
        finally:
            self._room.release()

    async def _post(
        self,
        url: str,
        headers: Mapping[str, str],
        json: object,
        form: Mapping[str, str] | None,
        repeats: int,
    ) -> Reply:
        content = None if form is not None else orjson.dumps(json)
        sent = dict(headers)
        if content is not None:
            sent["Content-Type"] = "application/json"
        body = bytearray()
        try:
            async with self._client.stream(
                "POST", url, headers=sent, content=content, data=form
            ) as response:
                async for piece in response.aiter_bytes():
                    body += piece
                    if len(body) > MAX_REPLY:
                        body.clear()
                        break
        except httpx.ConnectTimeout:
            raise unreachable() from None
        except httpx.TimeoutException:
            raise RouterError(
                Errno.BRIDGE_TIMEOUT, "The bridge did not answer in time", is_outage=True
            ) from None
        except (httpx.HTTPError, httpx.InvalidURL):
            if repeats:
                return await self._post(url, headers, json, form, repeats - 1)
            raise unreachable() from None
        return Reply(response.status_code, response.headers, json_object(bytes(body)))

    async def close(self) -> None:
        """Close all connections."""
        await self._client.aclose()


def retry_after(headers: Mapping[str, str], now: float) -> int:
    """Seconds of a Retry-After header (RFC 9110, 10.2.3): a number or a date; within bounds.

    `headers`: names in any case if the mapping ignores it, else in lower case.
    """
    text = headers.get("retry-after", "").strip()
    if text.isascii() and text.isdigit():
        seconds = int(text[:9])
    else:
        try:
            then = parsedate_to_datetime(text)
        except (TypeError, ValueError):
            return DEFAULT_RETRY
        seconds = int(then.replace(tzinfo=then.tzinfo or UTC).timestamp() - now) + 1
    return max(1, min(seconds, LONGEST_RETRY))


def retry_headers(headers: Mapping[str, str], now: float) -> tuple[Header, ...]:
    """Retry-After for the sender, if the provider has sent one."""
    if "retry-after" not in headers:
        return ()
    return (("Retry-After", str(retry_after(headers, now))),)


def json_object(body: bytes) -> Mapping[str, object]:
    """The JSON object of a reply, empty if it is something else."""
    try:
        document = orjson.loads(body)
    except orjson.JSONDecodeError:
        return {}
    return document if isinstance(document, dict) else {}


def busy() -> RouterError:
    """The error of a request that found no free connection."""
    return RouterError.retry_after(BUSY_RETRY, "The bridge of this device is busy")


def unreachable() -> RouterError:
    """The error of a request without a whole reply."""
    return RouterError(
        Errno.BRIDGE_UNREACHABLE, "The bridge of this device cannot be reached", is_outage=True
    )
