"""A fake of Apple's push service: HTTP/2 over TLS.

It checks requests as Apple does (path, headers, client certificate or provider token, payload),
keeps them for inspection, and answers what the test has scripted for a device, else 200.
"""

import asyncio
import contextlib
import json
import re
import ssl
import time
import uuid
from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import load_pem_public_key
from hyperframe.frame import GoAwayFrame

from autopush.webpush.syntax import decode_base64url
from support import provider_server
from support.provider_server import ProviderExchange, ProviderRequest, ProviderServer

MAX_AGE = 3600
"""Seconds that Apple takes a provider token."""

Answer = Mapping[str, Any]
"""`{"status", "reason", "timestamp", "headers"}`, with `text` instead of a JSON body; or
`{"do": X}`: `reset` (with `code`), `abort`, `hold` (until `release`), `partly`, `garbage`, `wait`
(never answers), `goaway` (with `handled`: whether the request is, and is then answered)."""


class RefusedRequest(Exception):
    """A request that Apple would refuse."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.answer = {"status": status, "reason": reason}


class ApnsServer(ProviderServer):
    """`certificate`, `client_ca`: PEM files, the first with its key; `token_keys`: by key id, the
    team and the public key in PEM.
    """

    def __init__(
        self,
        certificate: Path,
        *,
        client_ca: Path | None = None,
        token_keys: Mapping[str, tuple[str, str]] | None = None,
        checks: bool = True,
    ) -> None:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(certificate)
        if client_ca is not None:
            context.load_verify_locations(client_ca)
            # With token keys a client may also come without a certificate.
            context.verify_mode = ssl.CERT_OPTIONAL if token_keys else ssl.CERT_REQUIRED
        super().__init__(context)
        self.certificate = certificate
        self._token_keys, self._checks = token_keys or {}, checks
        self._came = asyncio.Condition()
        self._begin()

    def _begin(self) -> None:
        self.now: float | None = None
        """Epoch seconds for the age of tokens."""
        self._requests: list[dict[str, Any]] = []
        self._scripts: dict[str, deque[Answer]] = defaultdict(deque)
        self._released = asyncio.Event()

    def script(self, device: str, *answers: Answer) -> None:
        """The next answers to requests for that device."""
        self._scripts[device].extend(answers)

    def set_max_streams(self, number: int) -> None:
        """Of open connections too."""

        async def change() -> None:
            self.max_streams = number
            for connection in self.open:
                assert not isinstance(connection, provider_server._Http1)
                await connection.set_max_streams(number)

        self.run(change())

    def requests(self) -> Sequence[Mapping[str, Any]]:
        """`path`, `headers`, `payload` (parsed JSON), `connection` and `answer` of all requests so
        far.
        """
        return [*self._requests]

    async def wait_for(self, requests: int) -> None:
        """Until that many requests came."""

        async def wait() -> None:
            async with self._came:
                await self._came.wait_for(lambda: len(self._requests) >= requests)

        await asyncio.to_thread(self.run, wait())

    def release(self) -> None:
        """Answer the requests that are held."""

        async def release() -> None:
            self._released.set()

        self.run(release())

    def go_away(self) -> None:
        """Send GOAWAY on all connections."""

        async def go_away() -> None:
            for connection in list(self.open):  # others come and go meanwhile
                await connection.write(go_away_frame(2**31 - 1))

        self.run(go_away())

    def reset(self) -> None:
        super().reset()
        self._begin()

    async def handle(self, exchange: ProviderExchange) -> None:
        request = exchange.request
        record: dict[str, Any] = {}
        with contextlib.suppress(ValueError):
            record |= {
                "path": request.path,
                "headers": request.headers,
                "payload": json.loads(request.body),
                "connection": request.connection,
            }
            self._requests.append(record)
        async with self._came:
            self._came.notify_all()
        try:
            if self._checks:
                self._check(request)
            script = self._scripts[request.path.rpartition("/")[2]]
            answer = script.popleft() if script else {"status": 200}
        except RefusedRequest as refused:
            answer = refused.answer
        record["answer"] = answer
        await self._answer(exchange, answer)

    async def _answer(self, exchange: ProviderExchange, answer: Answer) -> None:
        match answer.get("do"):
            case "reset":
                await exchange.reset_stream(int(answer["code"]))
            case "abort":
                exchange.abort()
            case "wait":
                await asyncio.Event().wait()
            case "garbage":
                await exchange.raw(b"HTTP/1.1 400 Bad Request\r\n\r\n" * 4)
            case "partly":
                await exchange.respond_partly(200, b"{", 10)
                exchange.abort()
            case "hold":
                await self._released.wait()
                await exchange.respond(200)
            case "goaway":
                is_handled = bool(answer["handled"])
                last = exchange.stream if is_handled else max(0, exchange.stream - 2)
                await exchange.raw(go_away_frame(last))
                if is_handled:
                    await exchange.respond(200)
            case _:
                document = {k: answer[k] for k in ("reason", "timestamp") if k in answer}
                body = json.dumps(document).encode() if document else b""
                text = str(answer["text"]).encode() if "text" in answer else body
                headers = {"apns-id": exchange.request.headers.get("apns-id", "")}
                headers |= answer.get("headers", {})
                await exchange.respond(int(answer["status"]), text, headers)

    def _check(self, request: ProviderRequest) -> None:
        headers = request.headers
        require(request.method == "POST", 405, "MethodNotAllowed")
        path = re.fullmatch(r"/3/device/([^/?]*)", request.path)
        require(path is not None, 404, "BadPath")
        if request.client_certificate is None:
            self._check_token(headers.get("authorization", ""))
        assert path is not None
        require(path[1] != "", 400, "MissingDeviceToken")
        require(re.fullmatch("([0-9a-f]{2}){4,100}", path[1]) is not None, 400, "BadDeviceToken")
        require("apns-topic" in headers, 400, "MissingTopic")
        push_type, priority = headers.get("apns-push-type"), headers.get("apns-priority", "10")
        require(push_type in ("alert", "background"), 400, "InvalidPushType")
        allowed = ("1", "5") if push_type == "background" else ("1", "5", "10")
        require(priority in allowed, 400, "BadPriority")
        require(is_uuid(headers.get("apns-id", "")), 400, "BadMessageId")
        require(headers.get("apns-expiration", "").isdecimal(), 400, "BadExpirationDate")
        require(len(headers.get("apns-collapse-id", "")) <= 64, 400, "BadCollapseId")
        require(len(request.body) <= 4096, 413, "PayloadTooLarge")
        payload = json.loads(request.body or b"{}")
        require(isinstance(payload.get("aps"), dict), 400, "PayloadEmpty")

    def _check_token(self, authorization: str) -> None:
        scheme, _, token = authorization.partition(" ")
        require(scheme == "bearer", 403, "MissingProviderToken")
        try:
            head, claims, signature = (decode_base64url(part) for part in token.split("."))
            header, members = json.loads(head), json.loads(claims)
            team, pem = self._token_keys[header["kid"]]
            key = load_pem_public_key(pem.encode())
            assert isinstance(key, ec.EllipticCurvePublicKey)
            assert header["alg"] == "ES256"
            assert members["iss"] == team
            r, s = (int.from_bytes(signature[at : at + 32], "big") for at in (0, 32))
            signed = token.rpartition(".")[0].encode()
            key.verify(encode_dss_signature(r, s), signed, ec.ECDSA(SHA256()))
        except (AssertionError, KeyError, ValueError, InvalidSignature):
            raise RefusedRequest(403, "InvalidProviderToken") from None
        now = time.time() if self.now is None else self.now
        require(-60 <= now - members["iat"] <= MAX_AGE, 403, "ExpiredProviderToken")


def require(is_met: bool, status: int, reason: str) -> None:
    if not is_met:
        raise RefusedRequest(status, reason)


def is_uuid(text: str) -> bool:
    with contextlib.suppress(ValueError):
        return str(uuid.UUID(text)) == text
    return False


def go_away_frame(last_stream: int) -> bytes:
    """As a server sends it that finishes what is under way: `h2` would close the connection."""
    return GoAwayFrame(0, last_stream_id=last_stream).serialize()
