"""Requests over HTTP/2 to the providers that get a message for each notification.

Such a request costs a fraction of one of `provider` (`bench.http2_request` measures it), and its
work is done in slices that do not hold up the event loop.

Rule: whatever a provider does, a request ends in a reply that was read to its end or in a
`RouterError`, unless its caller cancels it. Nothing of a request or a reply is logged or put into
an error.
"""

import ssl
from collections.abc import Mapping
from urllib.parse import urlsplit

from autopush.bridges.provider import BUSY_RETRY, Reply, json_object, unreachable
from autopush.delivery.bridge_contract import RouterError
from autopush.net.http2_connection import Http2Error
from autopush.net.http2_pool import Http2Pool, PoolBusyError
from autopush.telemetry import logs

_log = logs.get(__name__)


class Http2Provider:
    """One provider's API at an https URL. `name`: the provider's, in texts.

    `max_connections`, `max_retry`: of the pool. `idempotent`: a request that arrives twice does no
    more harm than once; otherwise one is repeated only if it was certainly not processed.
    """

    def __init__(
        self,
        name: str,
        url: str,
        context: ssl.SSLContext,
        *,
        max_connections: int,
        max_retry: int,
        idempotent: bool = False,
    ) -> None:
        parts = urlsplit(url)
        self._name = name
        self._authority = parts.netloc
        self._path = parts.path
        self._idempotent = idempotent
        self._pool = Http2Pool(
            parts.hostname or "",
            parts.port or 443,
            context,
            max_connections=max_connections,
            max_retry=max_retry,
        )

    async def post(
        self, path: str, *, headers: Mapping[str, str], body: bytes, application: str
    ) -> Reply:
        """Send a JSON body. `path`: below that of the URL; `headers`: names in lower case;
        `application`: whose message it is, for the log.

        :raises RouterError: 502/902, no whole reply; 503/201, no room on any connection
        """
        sent = [
            (":method", "POST"),
            (":scheme", "https"),
            (":authority", self._authority),
            (":path", self._path + path),
            ("content-type", "application/json"),
            ("content-length", str(len(body))),
            *headers.items(),
        ]
        try:
            response = await self._pool.request(sent, body, idempotent=self._idempotent)
        except PoolBusyError:
            raise RouterError.retry_after(BUSY_RETRY, f"{self._name} busy, please retry") from None
        except Http2Error as error:
            _log.warning(
                "No response of a provider",
                provider=self._name,
                application=application,
                reason=str(error),
            )
            raise unreachable() from None
        return Reply(response.status, response.headers, json_object(response.body))

    async def close(self) -> None:
        """Close all connections; requests fail from now on."""
        await self._pool.close()


def tls_context() -> ssl.SSLContext:
    """For a provider over HTTP/2. `SSL_CERT_FILE` names further authorities."""
    context = ssl.create_default_context()
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["h2"])
    return context
