"""A fake of Google for tests: its OAuth token endpoint and the HTTP v1 API of FCM, over TLS.

It checks what Google checks: signature and claims of the assertion,
the access token and its project, the shape of a message. What it then answers is the name before
the first `.` of the device's token, a key of `ANSWERS`, else success; or, in turn, what a test has
scripted for a device's token or for the token endpoint (`TOKEN_ENDPOINT`).
"""

import base64
import json
import re
import secrets
import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qs

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from h2.errors import ErrorCodes

from support.certificates import private_pem, tls_pair
from support.provider_server import ProviderExchange, ProviderServer

GRANT_TYPE: Final = "urn:ietf:params:oauth:grant-type:jwt-bearer"
SCOPE: Final = "https://www.googleapis.com/auth/firebase.messaging"
TOKEN_ENDPOINT: Final = "/token"
CLOCK_SKEW: Final = 300
"""Seconds by which an assertion may be ahead."""
LIFETIME: Final = 3600
"""Seconds of an access token."""
MAX_RECORDED: Final = 20_000

_SEND: Final = re.compile(r"/v1/projects/([^/]+)/messages:send")
_TTL: Final = re.compile(r"(\d{1,7})(\.\d+)?s")
FCM_ERROR: Final = "type.googleapis.com/google.firebase.fcm.v1.FcmError"
BAD_REQUEST: Final = "type.googleapis.com/google.rpc.BadRequest"
PAGE: Final = b"<!DOCTYPE html><html><title>Error (Server Error)!!1</title></html>"

Answer = Callable[[ProviderExchange], Awaitable[None]]
Document = dict[str, Any]


def fcm_error(
    code: int, status: str, fcm_code: str = "", *, message: str = "Refused.", field: str = ""
) -> Document:
    """The body of an error as Google writes it."""
    details: list[Document] = []
    if fcm_code:
        details.append({"@type": FCM_ERROR, "errorCode": fcm_code})
    if field:
        violation = {"field": field, "description": message}
        details.append({"@type": BAD_REQUEST, "fieldViolations": [violation]})
    error = {"code": code, "message": message, "status": status, "details": details}
    return {"error": error if details else {n: v for n, v in error.items() if n != "details"}}


def error(
    code: int, status: str, fcm_code: str = "", *, retry_after: str = "", **more: str
) -> Answer:
    headers = {"retry-after": retry_after} if retry_after else {}
    document = fcm_error(code, status, fcm_code, **more)

    async def answer(exchange: ProviderExchange) -> None:
        await exchange.respond_json(code, document, headers)

    return answer


def plain(status: int, body: bytes, content_type: str, **headers: str) -> Answer:
    async def answer(exchange: ProviderExchange) -> None:
        await exchange.respond(status, body, {"content-type": content_type, **headers})

    return answer


async def half(exchange: ProviderExchange) -> None:
    await exchange.respond_partly(200, b'{"name": "proj', 100)
    exchange.abort()


async def stalled(exchange: ProviderExchange) -> None:
    """Begins and never goes on."""
    await exchange.respond_partly(200, b'{"name": "proj', 100)


async def nothing(exchange: ProviderExchange) -> None:
    exchange.abort()


async def garbage(exchange: ProviderExchange) -> None:
    await exchange.raw(b"\x00\xff no HTTP \r\n" * 20)
    exchange.abort()


async def reset(exchange: ProviderExchange) -> None:
    await exchange.reset_stream()


async def refused(exchange: ProviderExchange) -> None:
    """Certainly not processed."""
    await exchange.reset_stream(ErrorCodes.REFUSED_STREAM)


async def gone_away(exchange: ProviderExchange) -> None:
    """Certainly not processed, and the connection takes no more."""
    await exchange.go_away()


async def silent(exchange: ProviderExchange) -> None:
    """Never answers; the client has to give up."""


ANSWERS: Final[Mapping[str, Answer]] = {
    "UNREGISTERED": error(404, "NOT_FOUND", "UNREGISTERED"),
    "NOT_FOUND": error(404, "NOT_FOUND"),
    "BAD_TOKEN": error(400, "INVALID_ARGUMENT", "INVALID_ARGUMENT", field="message.token"),
    "BAD_TOKEN_TEXT": error(
        400,
        "INVALID_ARGUMENT",
        "INVALID_ARGUMENT",
        message="The registration token is not a valid FCM registration token",
    ),
    "INVALID_ARGUMENT": error(400, "INVALID_ARGUMENT", field="message.data[0].value"),
    "SENDER_ID_MISMATCH": error(403, "PERMISSION_DENIED", "SENDER_ID_MISMATCH"),
    "PERMISSION_DENIED": error(403, "PERMISSION_DENIED"),
    "QUOTA_EXCEEDED": error(429, "RESOURCE_EXHAUSTED", "QUOTA_EXCEEDED", retry_after="17"),
    "UNAVAILABLE": error(503, "UNAVAILABLE", "UNAVAILABLE"),
    "UNAVAILABLE_DATE": error(
        503, "UNAVAILABLE", "UNAVAILABLE", retry_after="Fri, 31 Dec 9999 23:59:59 GMT"
    ),
    "INTERNAL": error(500, "INTERNAL", "INTERNAL"),
    "THIRD_PARTY_AUTH_ERROR": error(401, "UNAUTHENTICATED", "THIRD_PARTY_AUTH_ERROR"),
    "UNAUTHENTICATED": error(401, "UNAUTHENTICATED"),
    "INVALID_GRANT": plain(
        400, b'{"error": "invalid_grant", "error_description": "No."}', "application/json"
    ),
    "INVALID_CLIENT": plain(401, b'{"error": "invalid_client"}', "application/json"),
    "TOKEN_OF_TEN_MINUTES": plain(
        200, b'{"access_token": "ya29.ten", "expires_in": "600"}', "application/json"
    ),
    "TOKEN_WITHOUT_TEXT": plain(200, b'{"expires_in": 3600}', "application/json"),
    "TOKEN_WITHOUT_LIFETIME": plain(200, b'{"access_token": "ya29.x"}', "application/json"),
    "TOKEN_OF_LINES": plain(
        200, b'{"access_token": "a\\r\\nX: b", "expires_in": 3600}', "application/json"
    ),
    "EMPTY_500": plain(500, b"", "text/plain"),
    "HTML_200": plain(200, PAGE, "text/html"),
    "HTML_404": plain(404, PAGE, "text/html"),
    "HTML_502": plain(502, PAGE, "text/html"),
    "EMPTY_200": plain(200, b"", "application/json"),
    "OBJECT_200": plain(200, b"{}", "application/json"),
    "LIST_200": plain(200, b"[1]", "application/json"),
    "ENDLESS_200": plain(200, b" " * 1_000_000 + b'{"name": "x"}', "application/json"),
    "ODD_ERROR": plain(500, b'{"error": {"details": [1, {"errorCode": 2}]}}', "application/json"),
    "REDIRECT": plain(302, b"", "text/html", location="https://127.0.0.1:1/elsewhere"),
    "GARBAGE": garbage,
    "NOTHING": nothing,
    "HALF": half,
    "STALLED": stalled,
    "RESET": reset,
    "REFUSED": refused,
    "GONE_AWAY": gone_away,
    "SILENT": silent,
}


class FakeGoogle(ProviderServer):
    """`certificate`: what a client has to trust, for SSL_CERT_FILE."""

    def __init__(self, folder: Path) -> None:
        """The certificate is kept in the folder."""
        context, _ = tls_pair(folder)
        super().__init__(context)
        self.certificate = folder / "server.pem"
        self._accounts: dict[str, tuple[rsa.RSAPublicKey, str]] = {}
        self._tokens: dict[str, tuple[str, float]] = {}
        self._scripts: dict[str, deque[str]] = {}
        self._recorded: deque[Document] = deque(maxlen=MAX_RECORDED)

    def add_account(self, project: str) -> Document:
        """Make a service account of a project: the members of its key file."""
        # Half as long as Google's, since each reader of a key proves that its factors are primes.
        key = rsa.generate_private_key(public_exponent=65537, key_size=1024)
        email = f"push-{secrets.token_hex(4)}@{project}.iam.gserviceaccount.com"
        self._accounts[email] = key.public_key(), project
        return {
            "type": "service_account",
            "project_id": project,
            "private_key_id": secrets.token_hex(20),
            "private_key": private_pem(key).decode(),
            "client_email": email,
            "token_uri": self.url + TOKEN_ENDPOINT,
        }

    def script(self, target: str, *answers: str) -> None:
        """Answer requests for that device's token, or of the token endpoint, in this order; the
        empty name is success.
        """
        self._scripts[target] = deque(answers)

    def revoke(self) -> None:
        """Make all access tokens so far worthless."""
        self._tokens.clear()

    def requests(self, path_end: str = "") -> list[Document]:
        """The requests since the last time whose path ends so, oldest first."""
        recorded = list(self._recorded)
        self._recorded.clear()
        return [each for each in recorded if each["path"].endswith(path_end)]

    def sent(self) -> list[Document]:
        """The bodies of the messages since the last time."""
        return [each["body"] for each in self.requests(":send") if "body" in each]

    async def handle(self, exchange: ProviderExchange) -> None:
        request = exchange.request
        record: Document = {
            "path": request.path,
            "version": request.version,
            "connection": request.connection,
            "headers": dict(request.headers),
        }
        self._recorded.append(record)
        if request.method != "POST":
            await exchange.respond_json(405, fcm_error(405, "INVALID_ARGUMENT"))
        elif request.path == TOKEN_ENDPOINT:
            await self._give_token(exchange, record)
        elif found := _SEND.fullmatch(request.path):
            await self._send(exchange, found[1], record)
        else:
            await exchange.respond(404, PAGE, {"content-type": "text/html"})

    async def _give_token(self, exchange: ProviderExchange, record: Document) -> None:
        form = parse_qs(exchange.request.body.decode())
        if name := self._scripted(TOKEN_ENDPOINT):
            await ANSWERS[name](exchange)
            return
        try:
            assert form["grant_type"] == [GRANT_TYPE], "grant type"
            [assertion] = form["assertion"]
            record["claims"], project = self._verified(assertion)
        except (AssertionError, KeyError, ValueError, InvalidSignature) as problem:
            about = {"error": "invalid_grant", "error_description": f"Invalid JWT: {problem!r}"}
            await exchange.respond_json(400, about)
            return
        token = "ya29." + secrets.token_urlsafe(32)
        self._tokens[token] = project, time.time() + LIFETIME
        given = {"access_token": token, "expires_in": LIFETIME, "token_type": "Bearer"}
        await exchange.respond_json(200, given)

    def _verified(self, assertion: str) -> tuple[Document, str]:
        head, claims, signature = map(_decoded, assertion.split("."))
        assert json.loads(head)["alg"] == "RS256", "algorithm"
        document = json.loads(claims)
        key, project = self._accounts[document["iss"]]
        signed = assertion.rpartition(".")[0].encode()
        key.verify(signature, signed, padding.PKCS1v15(), hashes.SHA256())
        now = time.time()
        assert document["scope"] == SCOPE, "scope"
        assert document["aud"] == self.url + TOKEN_ENDPOINT, "audience"
        assert document["iat"] < now + CLOCK_SKEW, "issued in the future"
        assert now < document["exp"] <= document["iat"] + 3600, "expiry"
        return document, project

    async def _send(self, exchange: ProviderExchange, project: str, record: Document) -> None:
        request = exchange.request
        scheme, _, access = request.headers.get("authorization", "").partition(" ")
        owner, expires_at = self._tokens.get(access, ("", 0.0))
        if scheme != "Bearer" or time.time() >= expires_at:
            await exchange.respond_json(401, fcm_error(401, "UNAUTHENTICATED"))
            return
        if owner != project:
            await exchange.respond_json(403, fcm_error(403, "PERMISSION_DENIED"))
            return
        try:
            assert request.headers["content-type"].startswith("application/json"), "content-type"
            document = record["body"] = json.loads(request.body)
            token = _check_message(document)
        except (AssertionError, KeyError, ValueError) as problem:
            refused = fcm_error(400, "INVALID_ARGUMENT", field=str(problem) or "message")
            await exchange.respond_json(400, refused)
            return
        name = self._scripted(token, token.partition(".")[0])
        answer = ANSWERS.get(name)
        record["answer"] = name if answer else ""
        if answer is not None:
            await answer(exchange)
            return
        name = "fake_message_id" if document.get("validate_only") else secrets.token_hex(8)
        await exchange.respond_json(200, {"name": f"projects/{project}/messages/{name}"})

    def _scripted(self, target: str, otherwise: str = "") -> str:
        """The name of the next answer."""
        answers = self._scripts.get(target)
        return answers.popleft() if answers else otherwise


def _check_message(document: Document) -> str:
    """The device's token of a request as we send them; the text of an error is the field's."""
    assert document.keys() <= {"message", "validate_only"}, "validate_only"
    message = document["message"]
    assert message.keys() == {"token", "android"}, "message"
    assert isinstance(message["token"], str), "message.token"
    android = message["android"]
    assert android.keys() <= {"ttl", "priority", "data", "collapse_key"}, "message.android"
    ttl = _TTL.fullmatch(android["ttl"])
    assert ttl is not None, "message.android.ttl"
    assert int(ttl[1]) <= 2_419_200, "message.android.ttl"
    assert android.get("priority") in (None, "NORMAL", "HIGH"), "message.android.priority"
    data = android.get("data", {})
    for name, value in data.items():
        assert isinstance(value, str), f"message.android.data[{name}]"
        reserved = name in ("from", "message_type") or name.startswith(("google", "gcm"))
        assert not reserved, f"message.android.data[{name}]"
    assert sum(len(name.encode()) + len(value.encode()) for name, value in data.items()) <= 4096
    token: str = message["token"]
    return token


def _decoded(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
