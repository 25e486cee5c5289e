"""The HTTP client for servers outside: access tokens, older bridges, exporters, commands.

It speaks HTTP/1.1 by the library aiohttp. Messages to FCM and APNs go through
:mod:`~autopush.net.http2_client`, which costs less CPU. Redirects are not followed, cookies not
kept; a response has at most `MAX_RESPONSE` bytes.

Rule: a request is repeated only if its server has certainly not received it. GET and `idempotent`
requests are also repeated when the connection was lost before the response.
"""

import asyncio
import base64
import os
import ssl
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, Self
from urllib.parse import unquote, urlsplit

from msgspec import Struct

from autopush.net.tcp import connect_error

if TYPE_CHECKING:
    import aiohttp

MAX_RESPONSE: Final = 1 << 17
"""The largest body of a response, in bytes."""
MAX_WAITING: Final = 1000
IDLE_TIMEOUT: Final = 4.0
"""Seconds until an idle connection is closed: less than the 5 of common servers, so that no request
is sent on a connection that the server is closing.
"""

WEBSOCKET_CLOSE: Final = b"\x88\x80\0\0\0\0"
"""A close frame without status, masked with zeros as clients must mask (RFC 6455, 5.5.1)."""

HeaderList = Sequence[tuple[str, str]]


class HttpError(Exception):
    """There is no complete response. The text quotes neither the request nor the response.

    `processed` is False where the server has certainly not processed the request. `is_connection`:
    the connection failed, not only this request.

    HttpError ── HttpBusyError · HttpTimeoutError
    """

    def __init__(
        self, message: str, *, processed: bool = True, is_connection: bool = False
    ) -> None:
        super().__init__(message)
        self.processed: Final = processed
        self.is_connection: Final = is_connection


class HttpBusyError(HttpError):
    """Not sent: no connection has room, or too many requests are waiting."""


class HttpTimeoutError(HttpError):
    """Sent, but without a response in time."""


class HttpResponse(Struct, frozen=True):
    """A complete response. `headers`: lower-case names, the last line of each. `certificate`: the
    server's, as from `ssl.SSLSocket.getpeercert`, if verified (not over HTTP/2).
    """

    status: int
    headers: dict[str, str]
    body: bytes
    certificate: Mapping[str, object] | None = None


class ClientLimits(Struct, frozen=True, kw_only=True):
    """Times are in seconds. `max_connections`: at a time.

    `max_retry`: how often a request is sent again. `busy_timeout`: how long it waits for room when
    all connections are at their limit. `connect_timeout`: for TCP, TLS and the server's settings.
    `response_timeout`, of HTTP/1.1: from sending until something is received; until the response is
    complete, as much again as connecting may take. A request over HTTP/2 is limited by its caller.
    """

    max_connections: int = 20
    max_retry: int = 0
    busy_timeout: float = 1.0
    connect_timeout: float = 10.0
    response_timeout: float = 10.0


def load_library() -> None:
    """Takes 0.2 s and 10 MB, which most workers do without. Otherwise the first client does it."""
    import aiohttp  # noqa: F401, PLC0415 - see above


def client_tls(*, http2: bool = False, verify: bool = True) -> ssl.SSLContext:
    """A context that trusts the system's CAs; `SSL_CERT_FILE` names further ones. Slow to make."""
    context = ssl.create_default_context()
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["h2" if http2 else "http/1.1"])
    if not verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def check_request(url: str, headers: HeaderList) -> None:
    """:raises HttpError: a line of the request would not be one"""
    text = "".join([url, *(value for _, value in headers)])
    if not text.isascii() or "\n" in text or "\r" in text:
        raise HttpError("the request is not valid", processed=False)


class HttpClient:
    """Sends requests to any server, until `close` or the end of an `async with`. `tls`: for https.
    `uses_proxy`: https goes through the proxy in `HTTPS_PROXY`, except to the hosts in `NO_PROXY`.
    """

    def __init__(
        self,
        tls: ssl.SSLContext | None = None,
        limits: ClientLimits = ClientLimits(),  # noqa: B008 - it is immutable
        *,
        uses_proxy: bool = False,
    ) -> None:
        import aiohttp  # noqa: PLC0415 - 10 MB and 0.2 s, which most workers do without

        self._tls = tls
        self._limits = limits
        self._uses_proxy = uses_proxy
        self._room = asyncio.Semaphore(limits.max_connections)
        self._waiting = 0
        self._session: aiohttp.ClientSession | None = None
        self._is_closed = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def request(
        self,
        method: str,
        url: str,
        headers: HeaderList = (),
        body: bytes = b"",
        *,
        idempotent: bool = False,
    ) -> HttpResponse:
        """Send a request. `headers`: without Host and Content-Length.

        :raises HttpError: no complete response; `HttpBusyError`, not sent; `HttpTimeoutError`
        """
        check_request(url, headers)
        await self._wait_for_room()
        try:
            for left in range(self._limits.max_retry, -1, -1):
                try:
                    return await self._send(method, url, headers, body)
                except HttpError as error:
                    is_harmless = not error.processed or idempotent
                    if not (left and error.is_connection and is_harmless):
                        raise
            raise AssertionError("there is at least one attempt")
        finally:
            self._room.release()

    async def close(self) -> None:
        """Close all connections; requests fail from now on."""
        self._is_closed = True
        if self._session is not None:
            await self._session.close()

    async def _wait_for_room(self) -> None:
        if self._waiting >= MAX_WAITING:
            raise HttpBusyError("too many requests wait for a connection", processed=False)
        self._waiting += 1
        try:
            async with asyncio.timeout(self._limits.busy_timeout):
                await self._room.acquire()
        except TimeoutError:
            raise HttpBusyError("no connection has room", processed=False) from None
        finally:
            self._waiting -= 1

    async def _send(self, method: str, url: str, headers: HeaderList, body: bytes) -> HttpResponse:
        import aiohttp  # noqa: PLC0415 - as in `load_library`
        from yarl import URL  # noqa: PLC0415

        if self._is_closed:
            raise HttpError("the client is closed", processed=False)
        try:
            parsed = URL(url, encoded=True)
            proxy = self._proxy(parsed.host or "") if parsed.scheme == "https" else None
        except ValueError:
            raise HttpError("the URL is invalid", processed=False) from None
        if parsed.scheme == "https" and self._tls is None:
            raise HttpError("the URL needs TLS", processed=False)
        if self._session is None:
            self._session = _open_session(self._tls)
        if not body and method != "GET":
            headers = [*headers, ("content-length", "0")]
        connect, receive = self._limits.connect_timeout, self._limits.response_timeout
        timeout = aiohttp.ClientTimeout(connect + receive, connect=connect, sock_read=receive)
        try:
            async with self._session.request(
                method,
                parsed,
                headers=headers,
                data=body or None,
                allow_redirects=False,
                timeout=timeout,
                proxy=proxy and proxy[0],
                proxy_headers=proxy and proxy[1],
            ) as response:
                return await _read(response)
        except (aiohttp.ClientError, TimeoutError, ValueError) as error:
            failure = _http_error(error, "the client is closed" if self._is_closed else "")
            raise failure from failure.__cause__

    def _proxy(self, host: str) -> tuple[str, Mapping[str, str]] | None:
        """URL and headers of the proxy for https to `host`, from the environment."""
        url = os.environ.get("https_proxy") or os.environ.get("HTTPS_PROXY")
        if not url or not self._uses_proxy:
            return None
        from urllib.request import proxy_bypass  # noqa: PLC0415 - rare, and heavy

        if proxy_bypass(host):
            return None
        parts = urlsplit(url if "://" in url else f"http://{url}")
        headers = {}
        if parts.username:
            credentials = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
            encoded = base64.b64encode(credentials.encode()).decode()
            headers["proxy-authorization"] = f"Basic {encoded}"
        return f"http://{parts.hostname}:{parts.port or 80}", headers


def _open_session(tls: ssl.SSLContext | None) -> "aiohttp.ClientSession":
    import aiohttp  # noqa: PLC0415 - as in `load_library`

    class Response(aiohttp.ClientResponse):
        """Keeps the server's certificate: a short response may be complete before it is seen."""

        certificate: Mapping[str, object] | None = None

        async def start(self, connection: aiohttp.connector.Connection) -> aiohttp.ClientResponse:
            if connection.transport is not None:
                self.certificate = connection.transport.get_extra_info("peercert")
            return await super().start(connection)

    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(ssl=tls or True, limit=0, keepalive_timeout=IDLE_TIMEOUT),
        response_class=Response,
        cookie_jar=aiohttp.DummyCookieJar(),
        auto_decompress=False,
        skip_auto_headers=("accept", "accept-encoding", "content-type", "user-agent"),
    )


async def _read(response: "aiohttp.ClientResponse") -> HttpResponse:
    body = bytearray()
    if response.status == 101:
        if response.connection is not None and response.connection.transport is not None:
            response.connection.transport.write(WEBSOCKET_CLOSE)  # no WebSocket is spoken here
        response.close()
    else:
        async for piece in response.content.iter_any():
            body += piece
            if len(body) > MAX_RESPONSE:
                response.close()
                raise HttpError("the response is too large", is_connection=True)
    headers = {name.lower(): value for name, value in response.headers.items()}
    certificate = getattr(response, "certificate", None)
    return HttpResponse(response.status, headers, bytes(body), certificate)


def _http_error(error: Exception, reason: str) -> HttpError:
    """Its text has nothing of the library's, which quotes URLs."""
    import aiohttp  # noqa: PLC0415 - as in `load_library`

    match error:
        case aiohttp.ConnectionTimeoutError():
            reason = reason or "connecting took too long"
            return HttpError(reason, processed=False, is_connection=True)
        case TimeoutError():
            return HttpTimeoutError("no response in time")
        case aiohttp.ClientHttpProxyError():
            reason = reason or f"the proxy answers {error.status}"
            return HttpError(reason, processed=False, is_connection=True)
        case aiohttp.ClientConnectorCertificateError() | aiohttp.ClientConnectorError():
            cause = error.__cause__
            refusal = connect_error(cause if isinstance(cause, Exception) else error)
            failure = HttpError(reason or str(refusal), processed=False, is_connection=True)
            failure.__cause__ = refusal
            return failure
        case aiohttp.InvalidURL() | aiohttp.NonHttpUrlClientError() | ValueError():
            return HttpError("the URL is invalid", processed=False)
        case aiohttp.ClientResponseError():
            return HttpError(reason or "the peer's response is not HTTP", is_connection=True)
    return HttpError(reason or "the peer closed the connection", is_connection=True)
