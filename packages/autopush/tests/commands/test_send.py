"""`autopush send`: a push from the shell, to this service and to others."""

import asyncio
import json
import os
import socket
import ssl
from collections.abc import Mapping
from pathlib import Path

import http_ece
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
)

from autopush.commands import send as send_module
from autopush.commands.send import describe, read_vapid_key
from autopush.net.http_client import HttpResponse
from autopush.settings import StartupError
from autopush.webpush import jwt
from autopush.webpush.errors import ERRORS
from autopush.webpush.syntax import decode_base64url, encode_base64url
from support.certificates import private_pem, tls_pair
from support.data_store import DataStore, Run
from support.provider_server import ProviderExchange, ProviderServer
from support.senders import public_point
from support.service import service
from support.sockets import unused_port

PEM = (Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
ENDPOINT = "http://127.0.0.1:1/wpush/v1/token"


class Subscriber:
    """A user agent's side of a subscription, which can decrypt."""

    def __init__(self) -> None:
        self._private = ec.generate_private_key(ec.SECP256R1())
        self.p256dh = encode_base64url(public_point(self._private))
        self.change_secret(os.urandom(16))

    def change_secret(self, secret: bytes) -> None:
        self._auth, self.auth = secret, encode_base64url(secret)

    def file(self, folder: Path, endpoint: str) -> str:
        path = folder / "subscription.json"
        keys = {"p256dh": self.p256dh, "auth": self.auth}
        path.write_text(json.dumps({"endpoint": endpoint, "expirationTime": None, "keys": keys}))
        return str(path)

    def decrypt(self, body: bytes) -> bytes:
        text = http_ece.decrypt(body, private_key=self._private, auth_secret=self._auth)
        assert isinstance(text, bytes)
        return text


class VapidKey:
    """A sender's key in a file."""

    def __init__(self, path: Path) -> None:
        self.private = ec.generate_private_key(ec.SECP256R1())
        self.text = encode_base64url(public_point(self.private))
        path.write_bytes(private_pem(self.private))
        self.file = str(path)


@pytest.fixture
def subscriber() -> Subscriber:
    return Subscriber()


@pytest.fixture
def vapid(tmp_path: Path) -> VapidKey:
    return VapidKey(tmp_path / "vapid.pem")


class PushService(ProviderServer):
    """Another push service, which notes each request and answers as it is told."""

    def __init__(
        self,
        status: int = 201,
        body: bytes = b"",
        tls: ssl.SSLContext | None = None,
        **headers: str,
    ) -> None:
        super().__init__(tls)
        self._answer = status, body, headers
        self.requests: list[tuple[str, Mapping[str, str], bytes]] = []
        """Paths, headers by their names in lower case, bodies."""

    async def handle(self, exchange: ProviderExchange) -> None:
        request = exchange.request
        self.requests.append((request.path, request.headers, request.body))
        await exchange.respond(*self._answer)


# ── To this service ──────────────────────────────────────────────────────────────────────────────


async def test_a_message_arrives_and_can_be_decrypted(
    store: DataStore, installed: Run, tmp_path: Path, subscriber: Subscriber, vapid: VapidKey
) -> None:
    async def send(*words: str) -> tuple[int, str, str]:
        return await asyncio.to_thread(installed, "autopush", "send", *words)

    async with service(store.data) as running:
        agent = await running.connect()
        _, endpoint = await agent.register(key=vapid.text)
        file = subscriber.file(tmp_path, endpoint)
        code, out, err = await send(
            *("--subscription", file, "--data", "Grüße", "--ttl", "90", "--vapid-key", vapid.file)
        )
        assert (code, err) == (0, "")
        received = await agent.notification()
        location = f"{running.endpoint}/m/{received['version']}"
        assert out.splitlines() == ["201 Created", f"Location: {location}", "TTL: 90"]
        assert received["headers"] == {"encoding": "aes128gcm"}
        body = decode_base64url(received["data"])
        assert subscriber.decrypt(body) == "Grüße".encode()
        # Without keys of the subscription an empty one.
        code, _, _ = await send(endpoint, "--vapid-key", vapid.file)
        assert code == 0
        assert "data" not in await agent.notification()
        # Without its own key the endpoint refuses it.
        code, out, err = await send(endpoint)
        assert (code, err) == (1, "")
        lines = out.splitlines()
        assert lines[:2] == ["401 Unauthorized", "errno 109: Invalid authentication"]
        assert lines[-1] == ERRORS[109].help
        await agent.close()
        assert running.errors == []


# ── To any push service ──────────────────────────────────────────────────────────────────────────


def test_the_request_is_that_of_the_rfcs(
    run: Run, tmp_path: Path, subscriber: Subscriber, vapid: VapidKey
) -> None:
    (tmp_path / "message").write_bytes(b"\x00binary\xff")
    with PushService(Location="https://elsewhere.example/m/1") as other:
        code, out, err = run(
            *("send", f"{other.url}/p/abc?x=1", "--file", str(tmp_path / "message")),
            *("--topic", "news", "--urgency", "high", "--vapid-sub", "mailto:me@a.example"),
            *("--vapid-key", vapid.file, "--p256dh", subscriber.p256dh, "--auth", subscriber.auth),
        )
    assert (code, err) == (0, "")
    assert out == "201 Created\nLocation: https://elsewhere.example/m/1\n"
    [(path, headers, body)] = other.requests
    assert path == "/p/abc?x=1"
    assert subscriber.decrypt(body) == b"\x00binary\xff"
    assert headers["content-encoding"] == "aes128gcm"
    assert (headers["ttl"], headers["topic"], headers["urgency"]) == ("60", "news", "high")
    scheme, _, rest = headers["authorization"].partition(" ")
    token, _, key = rest.removeprefix("t=").partition(",k=")
    assert (scheme, key) == ("vapid", vapid.text)
    signed = jwt.parse(token)
    assert jwt.verify(signed, vapid.private.public_key())
    assert (signed.claims["aud"], signed.claims["sub"]) == (other.url, "mailto:me@a.example")


def test_without_a_message_and_a_key_the_push_is_bare(run: Run) -> None:
    with PushService() as other:
        assert run("send", f"{other.url}/p")[0] == 0
    [(_, headers, body)] = other.requests
    assert (body, headers["ttl"], headers["content-length"]) == (b"", "60", "0")
    assert not headers.keys() & {"authorization", "content-encoding", "topic", "urgency"}


def test_over_tls_the_certificate_is_verified(
    installed: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server, _ = tls_pair(tmp_path)
    with PushService(tls=server) as other:
        code, out, err = installed("autopush", "send", f"{other.url}/p")
        assert (code, out) == (1, "")
        assert err.startswith(f"autopush: cannot send to {other.url[8:]}: ")
        assert "the certificate is not trusted" in err
        assert err.count("\n") == 1
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "server.pem"))
        assert installed("autopush", "send", f"{other.url}/p")[0] == 0
    assert [path for path, _, _ in other.requests] == ["/p"]


def test_the_message_may_come_from_standard_input(
    installed: Run, tmp_path: Path, subscriber: Subscriber
) -> None:
    with PushService() as other:
        file = subscriber.file(tmp_path, f"{other.url}/p")
        words = ("send", "--subscription", file, "--file", "-")
        assert installed("autopush", *words, stdin=b"piped")[0] == 0
    assert subscriber.decrypt(other.requests[0][2]) == b"piped"


# ── Answers ──────────────────────────────────────────────────────────────────────────────────────


def test_a_refusal_of_another_service_is_printed_as_far_as_it_is_understood() -> None:
    known = b'{"errno": 103, "message": "gone", "code": 410}'
    assert describe(HttpResponse(410, {}, known)) == [
        "410 Gone",
        f"errno 103: {ERRORS[103].title}",
        "gone",
        ERRORS[103].help,
    ]
    assert describe(HttpResponse(400, {}, b'{"errno": 77, "message": "no"}')) == [
        "400 Bad Request",
        "errno 77",
        "no",
    ]
    for body in (b"", b"<html>", b"[]", b'{"errno": "x"}', b"[" * 60_000):
        assert describe(HttpResponse(503, {"retry-after": "5"}, body)) == [
            "503 Service Unavailable",
            "Retry-After: 5",
        ]


def test_nothing_in_an_answer_controls_the_terminal(run: Run) -> None:
    body = json.dumps({"errno": 1, "message": "a\x1b[2Jb\nc"}).encode()
    with PushService(500, body, Location="x\x9b1m") as other:
        code, out, _ = run("send", other.url)
    assert code == 1
    assert not {"\x1b", "\x9b"} & {*out}
    assert "a�[2Jb�c\n" in out


def test_no_answer_is_one_line(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    port = unused_port()
    code, out, err = run("send", f"http://127.0.0.1:{port}/wpush/v1/abc")
    assert (code, out) == (1, "")
    assert err == f"autopush: cannot send to 127.0.0.1:{port}: the connection was refused\n"


def test_texts_and_keys_may_begin_with_a_dash(run: Run, subscriber: Subscriber) -> None:
    subscriber.change_secret(b"\xfb" + bytes(15))
    assert subscriber.auth.startswith("-")
    with PushService() as other:
        words = ("--p256dh", subscriber.p256dh, "--auth", subscriber.auth, "--topic", "-a")
        assert run("send", other.url, "--data", "--dry_run=x", *words)[0] == 0
    [(_, headers, body)] = other.requests
    assert headers["topic"] == "-a"
    assert subscriber.decrypt(body) == b"--dry_run=x"


def test_a_service_that_is_silent_is_given_up(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(send_module, "TIMEOUT", 0.05)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        code, _, err = run("send", f"http://127.0.0.1:{port}/p")
    assert code == 1
    assert err == f"autopush: no answer from 127.0.0.1:{port} in 0.05 seconds\n"


# ── Wrong usage ──────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ((), "there is no endpoint: give its URL, or --subscription FILE"),
        (("ftp://a/b",), "the endpoint is no http or https URL: text of 9 characters"),
        (("http://a:x/b",), "the endpoint is no http or https URL: text of 12 characters"),
        (("http://a/b c",), "the endpoint is no http or https URL: text of 12 characters"),
        ((ENDPOINT, "--data", "x"), "a message is encrypted for its subscription: give "),
        ((ENDPOINT, "--p256dh", "x"), "--p256dh and --auth belong together"),
        (
            (ENDPOINT, "--p256dh", "secret", "--auth", "x"),
            "p256dh: expected an uncompressed public key of P-256",
        ),
        ((ENDPOINT, "--subscription", "missing"), "cannot read missing: No such file"),
        ((ENDPOINT, "--vapid-key", "missing"), "cannot read missing: No such file"),
        ((ENDPOINT, "--file", "missing"), "cannot read missing: No such file"),
    ],
)
def test_what_cannot_be_sent_is_one_line(run: Run, words: tuple[str, ...], text: str) -> None:
    code, out, err = run("send", *words)
    assert (code, out) == (3, "")
    assert err.startswith(f"autopush: {text}")
    assert err.count("\n") == 1
    assert "secret" not in err


def test_a_message_that_is_too_long_is_not_sent(
    run: Run, tmp_path: Path, subscriber: Subscriber
) -> None:
    words = ("--p256dh", subscriber.p256dh, "--auth", subscriber.auth)
    code, _, err = run("send", ENDPOINT, "--data", "x" * 3994, *words)
    assert (code, err) == (3, "autopush: a message has at most 3,993 bytes, got 3,994\n")
    (tmp_path / "long").write_bytes(bytes(70_000))
    code, _, err = run("send", ENDPOINT, "--file", str(tmp_path / "long"), *words)
    assert (code, err) == (3, f"autopush: {tmp_path / 'long'} is longer than 65,536 bytes\n")


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"endpoint": 1}', '{"endpoint": "x", "keys": {"auth": "secret"}}']
)
def test_a_file_that_is_no_subscription_is_named(run: Run, tmp_path: Path, text: str) -> None:
    (tmp_path / "s.json").write_text(text)
    code, _, err = run("send", "--subscription", str(tmp_path / "s.json"))
    assert code == 3
    assert err.startswith(f"autopush: {tmp_path}/s.json: not the JSON of a subscription, with ")
    assert "secret" not in err


@pytest.mark.parametrize(
    "words",
    [
        ("--data", "x", "--file", "y"),
        ("--ttl", "-1"),
        ("--urgency", "now"),
        ("--topic",),
        ("--topic", "a\r\nX: y"),
        ("--topic", "ü"),
        ("--vapid-sub", "mailto:\udc80"),
    ],
)
def test_flags_that_make_no_sense_are_wrong_usage(run: Run, words: tuple[str, ...]) -> None:
    assert run("send", ENDPOINT, *words)[0] == 2


# ── Keys of senders ──────────────────────────────────────────────────────────────────────────────


def test_a_key_may_be_pem_or_its_bytes_in_base64url(tmp_path: Path) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    number = key.private_numbers().private_value
    sec1 = key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption())
    texts = [
        key.private_bytes(*PEM),
        sec1,
        # As `openssl ecparam -genkey` writes it.
        b"-----BEGIN EC PARAMETERS-----\nBggqhkjOPQMBBw==\n-----END EC PARAMETERS-----\n" + sec1,
        encode_base64url(number.to_bytes(32, "big")).encode() + b"\n",
    ]
    for text in texts:
        (tmp_path / "key").write_bytes(text)
        found = read_vapid_key(str(tmp_path / "key"))
        assert found.private_numbers() == key.private_numbers()


def test_what_is_no_such_key_is_refused_and_not_shown(tmp_path: Path) -> None:
    other_curve = ec.generate_private_key(ec.SECP384R1()).private_bytes(*PEM)
    rsa_key = rsa.generate_private_key(65537, 2048).private_bytes(*PEM)
    locked = ec.generate_private_key(ec.SECP256R1()).private_bytes(
        Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"password")
    )
    short = encode_base64url(bytes(31)).encode()
    zero = encode_base64url(bytes(32)).encode()
    broken = b"-----BEGIN PRIVATE KEY-----\nsecret\n-----END PRIVATE KEY-----\n"
    for text in (other_curve, rsa_key, locked, short, zero, broken, b"", b"\xff", b"secret"):
        (tmp_path / "key").write_bytes(text)
        with pytest.raises(StartupError, match="expected a P-256 private key") as caught:
            read_vapid_key(str(tmp_path / "key"))
        assert "secret" not in str(caught.value)


def test_an_endpoint_given_wins_over_the_one_of_the_file(
    run: Run, tmp_path: Path, subscriber: Subscriber
) -> None:
    with PushService() as other:
        file = subscriber.file(tmp_path, ENDPOINT)
        assert run("send", f"{other.url}/p", "--subscription", file, "--data", "x")[0] == 0
    assert subscriber.decrypt(other.requests[0][2]) == b"x"


def test_a_message_may_be_any_bytes(run: Run, subscriber: Subscriber) -> None:
    with PushService() as other:
        words = ("--p256dh", subscriber.p256dh, "--auth", subscriber.auth)
        assert run("send", other.url, "--data", os.fsdecode(b"\xff\xfe"), *words)[0] == 0
    assert subscriber.decrypt(other.requests[0][2]) == b"\xff\xfe"


def test_the_command_needs_no_store(run: Run, store: DataStore) -> None:
    with PushService() as other:
        assert run("send", other.url)[0] == 0
    assert list(store.data.iterdir()) == []
    assert run("send", ENDPOINT, "--store", "sqlite:///x")[0] == 2
