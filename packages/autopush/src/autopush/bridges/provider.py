"""HTTP requests to the providers of bridges: for messages and for access tokens.

Rule: whatever a provider does, a request ends in a reply that was read to its end or in a
`RouterError`, unless its caller cancels it. Nothing of a request or a reply is logged or put into
an error.
"""

import ssl
from collections.abc import Mapping
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import Final
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
"""Seconds, where all connections are at their limit."""
BUSY: Final = "The bridge of this device is busy"
DEFAULT_RETRY: Final = 60
"""Seconds, where a provider is overloaded and does not say how long it will be."""
LONGEST_RETRY: Final = 3600

_log = logs.get(__name__)


class Reply(Struct, frozen=True):
    """What a provider answered. `headers`: names in lower case; `document`: its JSON object, empty
    if it was something else.
    """

    status: int
    headers: Mapping[str, str]
    document: Mapping[str, object]


class Provider:
    """One provider's API, over connections that are kept open.

    `name`: the provider's, in texts and logs. `timeout`: seconds to wait for a free connection, and
    then for the reply. `max_connections`: to one server; `tls`: with a certificate where the
    provider wants one. `client`: in place of these, for a provider of many messages; its router
    limits the time of a request.
    """

    def __init__(
        self,
        name: str = "",
        *,
        timeout: float = TIMEOUT,
        max_connections: int = MAX_CONNECTIONS,
        tls: ssl.SSLContext | None = None,
        client: HttpClient | None = None,
    ) -> None:
        self._name = name
        self._timeout = timeout if client is None else None
        limits = ClientLimits(
            max_connections=max_connections,
            max_retry=1,
            busy_timeout=timeout,
            connect_timeout=timeout,
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
        """Send a request with a JSON body, or a form. `json`: an object, or its text as bytes;
        `application`: whose message it is, for the log; `idempotent`: one that arrives twice does
        no more harm than once, so that it is sent again when its connection ends.

        :raises RouterError: 502/902, no connection, or no whole reply; 502/903, not in time;
            503/201, no connection was free in that time
        """
        if form is not None:
            body, kind = urlencode(form).encode(), "application/x-www-form-urlencoded"
        else:
            body, kind = json if isinstance(json, bytes) else orjson.dumps(json), "application/json"
        sent = [("content-type", kind), *((name.lower(), text) for name, text in headers.items())]
        try:
            response = await self._client.request(
                "POST",
                url,
                sent,
                body,
                idempotent=idempotent,
                response_timeout=self._timeout,
            )
        except HttpBusyError:
            text = f"{self._name} busy, please retry" if self._name else BUSY
            raise RouterError.retry_after(BUSY_RETRY, text) from None
        except HttpTimeoutError:
            text = "The bridge did not answer in time"
            raise RouterError(Errno.BRIDGE_TIMEOUT, text, is_outage=True) from None
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
    """Seconds of a Retry-After header (RFC 9110, 10.2.3): a number or a date; within bounds."""
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


def unreachable() -> RouterError:
    """The error of a request without a whole reply."""
    return RouterError(
        Errno.BRIDGE_UNREACHABLE, "The bridge of this device cannot be reached", is_outage=True
    )


def refused() -> RouterError:
    """The error of a request whose credentials the provider does not accept."""
    return RouterError(
        Errno.BRIDGE_REFUSED,
        "The bridge does not accept the credentials of this service",
        is_outage=True,
    )


def _json_object(body: bytes) -> Mapping[str, object]:
    try:
        document = orjson.loads(body)
    except orjson.JSONDecodeError:
        return {}
    return document if isinstance(document, dict) else {}
