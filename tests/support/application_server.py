"""An application server for tests: pushes over an independent HTTP library."""

import json
import ssl
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from io import BytesIO
from typing import Any
from urllib.parse import urlsplit

import aiohttp

AESGCM = {
    "Content-Encoding": "aesgcm",
    "Encryption": 'keyid="http://example.org/bob/keys/123";salt="XZwpw6o37R-6qoZjw6KwAw=="',
    "Crypto-Key": 'keyid="a1";dh="JcqK-OLkJZlJ3sJJWstJCA"',
}
"""The crypto headers of the original's test client: quoted and padded."""
AES128GCM = {"Content-Encoding": "aes128gcm"}

Headers = Mapping[str, str]


@dataclass(frozen=True)
class Answer:
    """What the endpoint said."""

    status: int
    headers: Headers
    body: bytes

    @property
    def document(self) -> dict[str, Any]:
        document = json.loads(self.body)
        assert isinstance(document, dict)
        return document

    @property
    def message_id(self) -> str:
        """Of a push that was taken."""
        assert self.status == 201, self
        message_id = self.document["message-id"]
        assert isinstance(message_id, str)
        return message_id


class ApplicationServer:
    """Sends pushes over one pool of connections."""

    def __init__(self, session: aiohttp.ClientSession) -> None:
        self._session = session

    async def request(
        self, method: str, url: str, *, headers: Headers | None = None, body: bytes = b""
    ) -> Answer:
        async with self._session.request(
            method,
            url,
            headers=headers,
            data=BytesIO(body) if body else None,
            allow_redirects=False,
        ) as response:
            return Answer(response.status, response.headers, await response.read())

    async def push(
        self,
        endpoint: str,
        body: bytes = b"",
        *,
        ttl: int | str | None = 60,
        topic: str | None = None,
        crypto: Headers = AES128GCM,
        **headers: str,
    ) -> Answer:
        """One push. `headers`: further ones, `_` for `-`."""
        sent = dict(crypto) | {name.replace("_", "-"): value for name, value in headers.items()}
        if ttl is not None:
            sent["TTL"] = str(ttl)
        if topic is not None:
            sent["Topic"] = topic
        return await self.request("POST", endpoint, headers=sent, body=body)

    async def delete(self, location: str) -> Answer:
        return await self.request("DELETE", location)


@asynccontextmanager
async def application_server(
    *, reconnecting: bool = False, tls: ssl.SSLContext | None = None
) -> AsyncIterator[ApplicationServer]:
    """`reconnecting`: with a connection of its own for each request. `tls`: whom it trusts."""
    connector = aiohttp.TCPConnector(force_close=reconnecting, ssl=tls or True)
    async with aiohttp.ClientSession(connector=connector) as session:
        yield ApplicationServer(session)


def claims(endpoint: str, **others: object) -> dict[str, object]:
    """Good VAPID claims for this endpoint; others replace them, None leaves one out."""
    parts = urlsplit(endpoint)
    good: dict[str, object] = {
        "aud": f"{parts.scheme}://{parts.netloc}",
        "exp": int(time.time()) + 3600,
        "sub": "mailto:admin@example.com",
    }
    return {name: value for name, value in (good | others).items() if value is not None}
