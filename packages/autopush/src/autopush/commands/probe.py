"""One HTTP request with a time limit, which may be an upgrade to a WebSocket."""

import asyncio
import ssl
from collections.abc import Mapping
from typing import Final

from autopush.net.http_client import ClientLimits, HttpClient, HttpError, HttpResponse, client_tls
from autopush.net.tcp import DialRefused, DialUnknown

TIMEOUT: Final = 4.0
"""Seconds for the whole request."""


class ProbeFailed(Exception):  # noqa: N818 - named for what happened
    """There was no answer; the text says why."""

    def __init__(self, reason: str, *, refused: bool = False) -> None:
        super().__init__(reason)
        self.refused = refused
        """Nothing listens there."""


async def fetch(
    url: str, headers: Mapping[str, str] | None = None, *, verify: bool = True
) -> HttpResponse:
    """GET this URL (http, https, ws or wss). `verify`: check the server's certificate.

    Raises:
        ProbeFailed: no answer within `TIMEOUT`, or none that is HTTP.
    """
    url = url.replace("ws", "http", 1) if url.startswith("ws") else url
    client = HttpClient(
        client_tls(verify=verify) if url.startswith("https:") else None,
        ClientLimits(connect_timeout=TIMEOUT),
    )
    sent = {"Accept": "application/json", "Connection": "close", **(headers or {})}
    try:
        async with asyncio.timeout(TIMEOUT):
            return await client.request("GET", url, [*sent.items()])
    except TimeoutError:
        raise ProbeFailed(f"no answer within {TIMEOUT:g} s") from None
    except HttpError as error:
        cause = error.__cause__
        refused = isinstance(cause, DialRefused) and not isinstance(cause, DialUnknown)
        raise ProbeFailed(str(error), refused=refused) from None
    finally:
        await client.close()


def certificate_expiry(response: HttpResponse) -> float | None:
    """When the server's certificate ends (epoch seconds); None without one that was checked."""
    ends = (response.certificate or {}).get("notAfter")
    return ssl.cert_time_to_seconds(ends) if isinstance(ends, str) else None
