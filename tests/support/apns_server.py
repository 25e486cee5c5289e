"""A fake of Apple's push service: HTTP/2 over TLS, in a process of its own.

It checks requests as Apple does (path, headers, client certificate or provider token, payload),
keeps them for inspection, and answers what the test has scripted for a device, else 200.
"""

import asyncio
import contextlib
import json
import re
import ssl
import sys
import time
import uuid
from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
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
from support.provider_server import ProviderExchange, ProviderRequest, ProviderServer, ServerProcess

MAX_AGE = 3600
"""Seconds that Apple takes a provider token."""

Answer = Mapping[str, Any]
"""`{"status", "reason", "timestamp", "headers"}`, with `text` instead of a JSON body; or
`{"do": X}`: `reset` (with `code`), `abort`, `hold` (until `release`), `partly`, `garbage`, `wait`
(never answers), `goaway` (with `handled`: whether the request is, and is then answered)."""


# ── The test's side ──────────────────────────────────────────────────────────────────────────────


class ApnsServer(ServerProcess):
    """Starts the fake and controls it. `certificate`, `client_ca`: PEM files, the first with its
    key; `token_keys`: by key id, the team and the public key in PEM.
    """

    def __init__(
        self,
        folder: Path,
        certificate: Path,
        *,
        client_ca: Path | None = None,
        token_keys: Mapping[str, tuple[str, str]] | None = None,
        checks: bool = True,
        max_streams: int = 100,
    ) -> None:
        self.certificate = certificate
        settings = {
            "certificate": str(certificate),
            "client_ca": str(client_ca) if client_ca else None,
            "token_keys": token_keys or {},
            "checks": checks,
            "max_streams": max_streams,
        }
        super().__init__("support.apns_server", (json.dumps(settings),), folder / "apns_server.log")

    def script(self, device: str, *answers: Answer) -> None:
        """The next answers to requests for that device."""
        self.ask(do="script", device=device, answers=answers)

    def change(self, **settings: object) -> None:
        """`now`: epoch seconds for the age of tokens; `silent`; `max_streams`, also of open
        connections.
        """
        self.ask(do="change", settings=settings)

    def requests(self) -> Sequence[Mapping[str, Any]]:
        """`path`, `headers`, `payload` (parsed JSON), `connection` and `answer` of all requests so
        far.
        """
        found: Sequence[Mapping[str, Any]] = self._ask("requests")
        return found

    async def wait_for(self, requests: int) -> None:
        """Until that many requests came."""
        await asyncio.to_thread(self.ask, do="wait_for", requests=requests)

    def release(self) -> None:
        """Answer the requests that are held."""
        self.ask(do="release")

    def go_away(self, *, handled: bool = True) -> None:
        """Send GOAWAY on all connections; not `handled`: no stream on them was."""
        self.ask(do="go_away", handled=handled)

    def drop(self) -> None:
        """Reset all connections."""
        self.ask(do="drop")

    def reset(self) -> None:
        """Be as at the start: without connections, requests, scripts and changes."""
        self.ask(do="reset")

    @property
    def connections(self) -> int:
        """How many there were so far."""
        return int(self._ask("connections"))

    @property
    def open(self) -> int:
        """How many connections there are now."""
        return int(self._ask("open"))

    def wait_for_pings(self, number: int) -> None:
        """Until that many PINGs came."""
        while int(self._ask("pings")) < number:
            time.sleep(0.01)

    def _ask(self, what: str) -> Any:
        return self.ask(do=what)["is"]


# ── The process ──────────────────────────────────────────────────────────────────────────────────


class RefusedRequest(Exception):
    """A request that Apple would refuse."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.answer = {"status": status, "reason": reason}


@dataclass
class FakeApns:
    """Answers requests and the test's commands."""

    token_keys: Mapping[str, tuple[str, str]]
    is_checked: bool
    max_streams: int

    def __post_init__(self) -> None:
        self.server = ProviderServer(self.handle)
        self._came = asyncio.Condition()
        self._begin()

    def _begin(self) -> None:
        self.now: float | None = None
        self.requests: list[dict[str, object]] = []
        self.scripts: dict[str, deque[Answer]] = defaultdict(deque)
        self._released = asyncio.Event()
        self.server.max_streams = self.max_streams

    async def handle(self, exchange: ProviderExchange) -> None:
        request = exchange.request
        record: dict[str, object] = {}
        with contextlib.suppress(ValueError):
            record |= {
                "path": request.path,
                "headers": request.headers,
                "payload": json.loads(request.body),
                "connection": request.connection,
            }
            self.requests.append(record)
        async with self._came:
            self._came.notify_all()
        try:
            if self.is_checked:
                self._check(request)
            script = self.scripts[request.path.rpartition("/")[2]]
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
            team, pem = self.token_keys[header["kid"]]
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

    async def command(self, line: dict[str, Any]) -> object:
        match line["do"]:
            case "script":
                self.scripts[line["device"]].extend(line["answers"])
            case "change":
                await self._change(**line["settings"])
            case "requests":
                return {"is": self.requests}
            case "wait_for":
                async with self._came:
                    await self._came.wait_for(lambda: len(self.requests) >= line["requests"])
            case "release":
                self._released.set()
            case "go_away":
                for connection in list(self.server.open):  # others come and go meanwhile
                    last = 2**31 - 1 if line["handled"] else 0
                    await connection.write(go_away_frame(last))
            case "drop":
                self.server.drop()
            case "reset":
                await self.server.reset()
                self._begin()
            case "connections":
                return {"is": self.server.connections}
            case "open":
                return {"is": len(self.server.open)}
            case "pings":
                return {"is": self.server.pings}
        return {}

    async def _change(
        self,
        now: float | None = None,
        silent: bool | None = None,
        max_streams: int | None = None,
    ) -> None:
        self.now = now if now is not None else self.now
        self.server.is_silent = self.server.is_silent if silent is None else silent
        if max_streams is not None:
            self.server.max_streams = max_streams
            for connection in self.server.open:
                assert not isinstance(connection, provider_server._Http1)
                await connection.set_max_streams(max_streams)


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


async def main() -> None:
    settings = json.loads(sys.argv[1])
    fake = FakeApns(settings["token_keys"], settings["checks"], settings["max_streams"])
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(settings["certificate"])
    if settings["client_ca"]:
        context.load_verify_locations(settings["client_ca"])
        # With token keys a client may also come without a certificate.
        context.verify_mode = ssl.CERT_OPTIONAL if fake.token_keys else ssl.CERT_REQUIRED
    await provider_server.run(fake.server, context, fake.command)


if __name__ == "__main__":
    asyncio.run(main())
