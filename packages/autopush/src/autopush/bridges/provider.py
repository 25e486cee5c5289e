"""HTTP requests to the providers of bridges: for messages and for access tokens.

Rule: a request ends in a complete reply or a `RouterError`, unless its caller cancels it. Nothing
of a request or a reply is logged or put into an error.
"""

import ssl
from collections.abc import Mapping
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Final
from urllib.parse import urlencode

import orjson
from msgspec import Struct

from autopush.delivery.bridge_contract import RouterError
from autopush.net.http_client import (
    ClientLimits,
    HttpBusyError,
    HttpClient,
    HttpError,
    HttpTimeoutError,
    client_tls,
)
from autopush.telemetry import logs
from autopush.webpush.errors import Errno, Header

TIMEOUT: Final = 3.0
MAX_CONNECTIONS: Final = 20
"""To one server; further requests wait."""
BUSY_RETRY: Final = 5
"""Seconds, when all connections are at their limit."""
BUSY: Final = "The bridge of this device is busy"
DEFAULT_RETRY: Final = 60
"""Seconds, when an overloaded provider sends no valid Retry-After."""
LONGEST_RETRY: Final = 3600

if TYPE_CHECKING:
    from autopush.net.http2_client import Http2Client

_log = logs.get(__name__)


class Reply(Struct, frozen=True):
    """`headers`: names in lower case; `document`: the JSON object, empty for any other body."""

    status: int
    headers: Mapping[str, str]
    document: Mapping[str, object]


class Provider:
    """One provider's API, over persistent connections.

    `name`: for error texts and logs. `timeout`: seconds for a free connection, again to connect,
    and again for the reply. `max_connections`: at a time. `tls`: with a client certificate where
    one is needed. `client`: instead of these three; the router then limits the time of a request.
    """

    def __init__(
        self,
        name: str = "",
        *,
        timeout: float = TIMEOUT,
        max_connections: int = MAX_CONNECTIONS,
        tls: ssl.SSLContext | None = None,
        client: "Http2Client | None" = None,
    ) -> None:
        self._name = name
        limits = ClientLimits(
            max_connections=max_connections,
            max_retry=1,
            busy_timeout=timeout,
            connect_timeout=timeout,
            response_timeout=timeout,
        )
        self._client = client or HttpClient(tls or client_tls(), limits, uses_proxy=True)

    async def post(
        self,
        url: str,
        *,
        headers: Mapping[str, str],
        json: object = None,
        form: Mapping[str, str] | None = None,
        application: str = "",
        idempotent: bool = False,
    ) -> Reply:
        """`json`: an object, or its text as bytes; `application`: for the log; `idempotent`: may
        arrive twice, so it is sent again when its connection ends.

        :raises RouterError: 502/902, no connection, or no complete reply; 502/903, timeout;
            503/201, no connection was free in time
        """
        if form is not None:
            body, kind = urlencode(form).encode(), "application/x-www-form-urlencoded"
        else:
            body, kind = json if isinstance(json, bytes) else orjson.dumps(json), "application/json"
        sent = [("content-type", kind), *((name.lower(), text) for name, text in headers.items())]
        try:
            response = await self._client.request("POST", url, sent, body, idempotent=idempotent)
        except HttpBusyError:
            text = f"{self._name} busy, please retry" if self._name else BUSY
            raise RouterError.retry_after(BUSY_RETRY, text) from None
        except HttpTimeoutError:
            raise timed_out() from None
        except HttpError as error:
            if self._name:
                _log.warning(
                    "No response of a provider",
                    provider=self._name,
                    application=application,
                    reason=str(error),
                )
            raise unreachable() from None
        return Reply(response.status, response.headers, _json_object(response.body))

    async def close(self) -> None:
        """Close all connections; requests fail from now on."""
        await self._client.close()


def retry_after(headers: Mapping[str, str], now: float) -> int:
    """Seconds of a Retry-After header (RFC 9110, 10.2.3), from 1 to `LONGEST_RETRY`."""
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
    """Retry-After for the sender, if the provider sent one."""
    if "retry-after" not in headers:
        return ()
    return (("Retry-After", str(retry_after(headers, now))),)


def unreachable() -> RouterError:
    """For a request without a complete reply."""
    return RouterError(
        Errno.BRIDGE_UNREACHABLE, "The bridge of this device cannot be reached", is_outage=True
    )


def timed_out() -> RouterError:
    """For a request without a reply in time."""
    return RouterError(Errno.BRIDGE_TIMEOUT, "The bridge did not answer in time", is_outage=True)


def refused(*, is_outage: bool = True) -> RouterError:
    """For a request whose credentials the provider does not accept."""
    return RouterError(
        Errno.BRIDGE_REFUSED,
        "The bridge does not accept the credentials of this service",
        is_outage=is_outage,
    )


def overloaded(reply: Reply, now: float, *, is_outage: bool = False) -> RouterError:
    """For a request that the provider wants later."""
    return RouterError(
        Errno.BACK_OFF,
        "The bridge of this device is overloaded",
        headers=(("Retry-After", str(retry_after(reply.headers, now))),),
        is_outage=is_outage,
    )


def _json_object(body: bytes) -> Mapping[str, object]:
    try:
        document = orjson.loads(body)
    except orjson.JSONDecodeError:
        return {}
    return document if isinstance(document, dict) else {}
