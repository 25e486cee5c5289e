"""`autopush send ENDPOINT`: one push from an application server, to any service of RFC 8030."""

import argparse
import asyncio
import os
import sys
import time
from collections.abc import Mapping
from typing import Final, NamedTuple
from urllib.parse import SplitResult, urlsplit

import msgspec
from cryptography.hazmat.primitives.asymmetric.ec import (
    SECP256R1,
    EllipticCurvePrivateKey,
    derive_private_key,
)
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from autopush.clock import Clock
from autopush.commands import CommandLine
from autopush.commands.arguments import add_number
from autopush.commands.running import INCOMPLETE, STANDARD_INPUT
from autopush.net.http_client import (
    ClientLimits,
    HttpClient,
    HttpError,
    HttpResponse,
    HttpTimeoutError,
    client_tls,
)
from autopush.settings import Settings, StartupError
from autopush.telemetry import logs
from autopush.webpush.encryption import CONTENT_ENCODING, SubscriptionKeys, encrypt
from autopush.webpush.errors import ERRORS, reason_phrase
from autopush.webpush.syntax import decode_base64url
from autopush.webpush.vapid import make_authorization

TIMEOUT: Final = 15.0
"""Seconds to connect, and again for the response."""
TOKEN_LIFETIME: Final = 600
"""Seconds the VAPID token is valid; allows for clocks that differ by some minutes."""
MAX_FILE: Final = 65_536
SHOWN_HEADERS: Final = ("Location", "TTL", "Retry-After")


class _Keys(msgspec.Struct):
    p256dh: str
    auth: str


class _Subscription(msgspec.Struct):
    """A browser's `JSON.stringify(subscription)`."""

    endpoint: str
    keys: _Keys | None = None


class PushRequest(NamedTuple):
    url: SplitResult
    headers: Mapping[str, str]
    body: bytes


class _ErrorDocument(msgspec.Struct):
    errno: int | None = None
    message: str = ""


def send(_: Settings, arguments: argparse.Namespace) -> int:
    """Send a push and print the response; returns 1 if it was refused or there was none.

    :raises StartupError: a file cannot be read, or a key or the endpoint is malformed
    """
    request = build(arguments, time.time)
    try:
        answer = asyncio.run(post(request))
    except HttpTimeoutError:
        logs.print_error(f"no answer from {request.url.netloc} in {TIMEOUT:g} seconds")
    except HttpError as error:
        logs.print_error(f"cannot send to {request.url.netloc}: {error}")
    else:
        for line in describe(answer):
            # The response is untrusted: it must not control the terminal.
            print(
                "".join(
                    char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in line
                )
            )
        return 0 if 200 <= answer.status < 300 else INCOMPLETE
    return INCOMPLETE


# ── The request ───────────────────────────────────────────────────────────────────────────────────


def build(arguments: argparse.Namespace, clock: Clock) -> PushRequest:
    """The push for these arguments; raises StartupError as `send` does."""
    endpoint, keys = _recipient(arguments)
    url = _parse_endpoint(endpoint)
    headers = {"TTL": str(arguments.ttl)}
    for name in ("topic", "urgency"):
        if (value := getattr(arguments, name)) is not None:
            headers[name.capitalize()] = value
    if arguments.vapid_key is not None:
        headers["Authorization"] = make_authorization(
            endpoint,
            read_vapid_key(arguments.vapid_key),
            expires=int(clock()) + TOKEN_LIFETIME,
            subject=arguments.vapid_sub,
        )
    body = b""
    message = os.fsencode(arguments.data) if arguments.data is not None else None
    if arguments.file is not None:
        message = _read(arguments.file)
    if message is not None:
        if keys is None:
            raise StartupError(
                "a message is encrypted for its subscription: give --subscription, or --p256dh and "
                "--auth; without a message, an empty one is sent"
            )
        try:
            body = encrypt(message, keys)
        except ValueError as error:
            raise StartupError(str(error)) from None
        headers["Content-Encoding"] = CONTENT_ENCODING
    return PushRequest(url, headers, body)


def _recipient(arguments: argparse.Namespace) -> tuple[str, SubscriptionKeys | None]:
    endpoint, p256dh, auth = arguments.endpoint, arguments.p256dh, arguments.auth
    if arguments.subscription is not None:
        file = arguments.subscription
        try:
            subscription = msgspec.json.decode(_read(file), type=_Subscription)
        except msgspec.MsgspecError as error:
            raise StartupError(
                f"{file}: not the JSON of a subscription, with endpoint and keys: {error}"
            ) from None
        endpoint = endpoint or subscription.endpoint
        if subscription.keys is not None:
            p256dh = p256dh or subscription.keys.p256dh
            auth = auth or subscription.keys.auth
    if endpoint is None:
        raise StartupError("there is no endpoint: give its URL, or --subscription FILE")
    if (p256dh is None) is not (auth is None):
        raise StartupError("--p256dh and --auth belong together")
    if p256dh is None:
        return endpoint, None
    try:
        return endpoint, SubscriptionKeys(p256dh, auth)
    except ValueError as error:
        raise StartupError(str(error)) from None


def _parse_endpoint(endpoint: str) -> SplitResult:
    try:
        url = urlsplit(endpoint)
        is_url = url.scheme in ("http", "https") and bool(url.hostname) and url.port != 0
    except ValueError:
        is_url = False
    if not is_url or not endpoint.isascii() or not endpoint.isprintable() or " " in endpoint:
        raise StartupError(
            f"the endpoint is no http or https URL: text of {len(endpoint)} characters"
        )
    return url


def read_vapid_key(file: str) -> EllipticCurvePrivateKey:
    """A P-256 private key: PEM, or 32 bytes as base64url.

    :raises StartupError: the file cannot be read, or holds no such key
    """
    raw = _read(file)
    try:
        if b"-----BEGIN" in raw:
            key = load_pem_private_key(raw, password=None)
            if isinstance(key, EllipticCurvePrivateKey) and isinstance(key.curve, SECP256R1):
                return key
        else:
            number = decode_base64url(raw.decode("ascii").strip())
            if len(number) == 32:
                return derive_private_key(int.from_bytes(number, "big"), SECP256R1())
    except (ValueError, TypeError):  # TypeError: the key has a password
        pass
    raise StartupError(
        f"{file}: expected a P-256 private key, as PEM without password or 32 bytes as base64url"
    )


def _read(file: str) -> bytes:
    try:
        if file == STANDARD_INPUT:
            raw = sys.stdin.buffer.read(MAX_FILE + 1)
        else:
            with open(file, "rb") as source:
                raw = source.read(MAX_FILE + 1)
    except OSError as error:
        raise StartupError(f"cannot read {file}: {error.strerror}") from None
    if len(raw) > MAX_FILE:
        raise StartupError(f"{file} is longer than {MAX_FILE:,} bytes")
    return raw


# ── The answer ────────────────────────────────────────────────────────────────────────────────────


async def post(request: PushRequest) -> HttpResponse:
    """Raises HttpError if there is no connection, or no response in time."""
    url = request.url
    limits = ClientLimits(connect_timeout=TIMEOUT, response_timeout=TIMEOUT)
    headers = [*request.headers.items(), ("Connection", "close")]
    async with HttpClient(client_tls() if url.scheme == "https" else None, limits) as client:
        target = url._replace(fragment="").geturl()
        return await client.request("POST", target, headers, request.body)


def describe(answer: HttpResponse) -> list[str]:
    """Lines with status and headers, and for a refusal its errno and advice."""
    lines = [f"{answer.status} {reason_phrase(answer.status)}"]
    lines += [
        f"{name}: {value}" for name in SHOWN_HEADERS if (value := answer.headers.get(name.lower()))
    ]
    if 200 <= answer.status < 300:
        return lines
    try:
        document = msgspec.json.decode(answer.body, type=_ErrorDocument)
    except (msgspec.MsgspecError, RecursionError):
        return lines
    kind = ERRORS.get(document.errno) if document.errno is not None else None
    if document.errno is not None:
        lines.append(f"errno {document.errno}" + (f": {kind.title}" if kind else ""))
    if document.message:
        lines.append(document.message)
    if kind is not None:
        lines.append(kind.help)
    return lines


# ── Arguments ─────────────────────────────────────────────────────────────────────────────────────


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    about = "the endpoint URL of a subscription, of any push service"
    parser.add_argument("endpoint", metavar="ENDPOINT", nargs="?", help=about)
    group = parser.add_argument_group("The message", "Without one, the push is empty.")
    message = group.add_mutually_exclusive_group()
    message.add_argument("--data", metavar="TEXT", help="the message")
    message.add_argument("--file", metavar="FILE", help="a file with it; - reads standard input")
    about = "seconds that it may be kept for a user agent that is not connected"
    add_number(group, "--ttl", 60, (0, 2**31), about, "SECONDS")
    about = "replaces the message of this topic that still waits"
    group.add_argument("--topic", type=_parse_ascii, help=about)
    urgencies = ("very-low", "low", "normal", "high")
    group.add_argument("--urgency", choices=urgencies, help="how urgent it is")
    group = parser.add_argument_group("The subscription", "A message is encrypted with its keys.")
    about = "JSON of it, as JSON.stringify(subscription) gives; it may name the endpoint too"
    group.add_argument("--subscription", metavar="FILE", help=about)
    group.add_argument("--p256dh", metavar="KEY", help="its public key, base64url")
    group.add_argument("--auth", metavar="SECRET", help="its shared secret, base64url")
    group = parser.add_argument_group("The sender", "VAPID, which v2 endpoints require.")
    about = "private key: PEM, or 32 bytes in base64url"
    group.add_argument("--vapid-key", metavar="FILE", help=about)
    about = "contact of the sender: a mailto: or https: URL; some push services require it"
    group.add_argument("--vapid-sub", metavar="URL", type=_parse_ascii, help=about)


def _parse_ascii(text: str) -> str:
    if not text.isascii() or not text.isprintable():
        raise argparse.ArgumentTypeError("expected printable ASCII characters")
    return text


COMMANDS: Final = {
    "send": CommandLine(
        send, _add_arguments, "ENDPOINT", text_flags=("--data", "--topic", "--p256dh", "--auth")
    )
}
