"""The option `apns_creds`: release channels of an application, each with its topic, its server and
a client certificate or a key that signs tokens. The page Bridges lists the members.

Rule: an error stops the start and names the channel and the member, never a secret.
"""

import re
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, EllipticCurvePrivateKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from cryptography.x509 import load_pem_x509_certificates
from msgspec import Struct

from autopush.clock import Clock
from autopush.hosts import join_url
from autopush.net.http_client import ClientLimits, client_tls
from autopush.settings import StartupError
from autopush.settings.value_types import shown_path, url
from autopush.webpush import jwt

HOST: Final = "api.push.apple.com"
SANDBOX_HOST: Final = "api.development.push.apple.com"
PORTS: Final = (443, 2197)
TOKEN_SHORTEST: Final = 1200
"""Seconds before a token may be replaced: Apple refuses more frequent changes."""
TOKEN_LIFETIME: Final = 2 * TOKEN_SHORTEST
"""Seconds that a token is used; Apple refuses those older than an hour."""

_CHANNEL: Final = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_TOPIC: Final = re.compile(r"[A-Za-z0-9_.-]{1,200}")
_NAME: Final = re.compile(r"[A-Za-z0-9]{10}")
_HARMLESS: Final = re.compile(r"[a-z_]{1,32}")
_PEM: Final = "-----BEGIN "
_MEMBERS: Final[Mapping[str, tuple[type, str]]] = {
    "cert": (str, "the path of a file"),
    "key": (str, "the path of a file"),
    "key_id": (str, "10 letters and digits"),
    "team_id": (str, "10 letters and digits"),
    "topic": (str, "a bundle ID"),
    "sandbox": (bool, "true or false"),
    "port": (int, "443 or 2197"),
    "endpoint": (str, "a URL that starts with https:// and has no query"),
    "max_connections": (int, "a whole number from 1 to 1000"),
    "max_retry": (int, "a whole number from 0 to 10"),
}


class ProviderToken:
    """Apple wants one token per key. All workers issue the same one: issue times are multiples of
    `TOKEN_SHORTEST`, and signatures are deterministic.
    """

    def __init__(
        self, key: EllipticCurvePrivateKey, key_id: str, team_id: str, clock: Clock
    ) -> None:
        self._key = key
        self._key_id = key_id
        self._team_id = team_id
        self._clock = clock
        self._text = ""
        self._issued_at = 0

    def current(self) -> str:
        now = int(self._clock())
        period = now - now % TOKEN_LIFETIME
        if not self._text or not period <= self._issued_at <= now:
            self._issue(period)
        return self._text

    def replacement(self, refused: str) -> str | None:
        """A token instead of the one refused as expired; None if that is too new to replace."""
        if refused == self._text:
            now = int(self._clock())
            if 0 <= now - self._issued_at < TOKEN_SHORTEST:
                return None
            self._issue(now - now % TOKEN_SHORTEST)
        return self._text

    def _issue(self, at: int) -> None:
        self._issued_at = at
        claims = {"iss": self._team_id, "iat": at}
        self._text = jwt.sign(claims, self._key, self._key_id)


class ReleaseChannel(Struct, frozen=True, kw_only=True):
    """`url`: the base of Apple's paths; `token`: None where a client certificate is used."""

    topic: str
    url: str
    context: ssl.SSLContext
    token: ProviderToken | None
    limits: ClientLimits


def release_channels(
    credentials: Mapping[str, Mapping[str, object]], clock: Clock
) -> dict[str, ReleaseChannel]:
    """:raises StartupError: a wrong name or member, a file that cannot be used"""
    for name in credentials:
        if _CHANNEL.fullmatch(name) is None:
            raise StartupError(
                "apns_creds: expected names of release channels of at most 64 letters, digits or "
                f"_.-, got one of {len(name)} characters"
            )
    return {name: _Reader(name, value).read(clock) for name, value in credentials.items()}


class _Reader:
    def __init__(self, channel: str, members: Mapping[str, object]) -> None:
        self._channel = channel
        self._members = members

    def read(self, clock: Clock) -> ReleaseChannel:
        for name, value in self._members.items():
            if name not in _MEMBERS:
                label = name if _HARMLESS.fullmatch(name) else f"a name of {len(name)} characters"
                raise StartupError(f"apns_creds: {self._channel}: unknown member: {label}")
            # bool is a subclass of int, so not isinstance.
            self._check(name, type(value) is _MEMBERS[name][0] and value != "")
        context = client_tls(http2=True)
        token = None
        if "key_id" in self._members or "team_id" in self._members:
            token = self._token(clock)
        else:
            self._load_certificate(context)
        return ReleaseChannel(
            topic=self._text("topic", _TOPIC, f"com.mozilla.org.{self._channel}"),
            url=self._url(),
            context=context,
            token=token,
            limits=ClientLimits(
                max_connections=self._number("max_connections", 20, range(1, 1001)),
                max_retry=self._number("max_retry", 2, range(11)),
            ),
        )

    def _url(self) -> str:
        port = self._number("port", PORTS[0], PORTS)
        if "endpoint" not in self._members:
            return join_url("https", SANDBOX_HOST if self._members.get("sandbox") else HOST, port)
        try:
            return str(url("https").parse(str(self._members["endpoint"])))
        except ValueError:
            raise self._error("endpoint", f"expected {_MEMBERS['endpoint'][1]}") from None

    def _token(self, clock: Clock) -> ProviderToken:
        for name in ("key", "key_id", "team_id"):
            if name not in self._members:
                raise self._error(name, "needed with key_id and team_id")
        if "cert" in self._members:
            raise self._error("cert", "not allowed with key_id and team_id")
        text = str(self._members["key"])
        key = self._private_key(text.encode() if text.startswith(_PEM) else self._file("key"))
        if not isinstance(key, EllipticCurvePrivateKey) or not isinstance(key.curve, SECP256R1):
            raise self._error("key", "expected a key of the curve P-256, as .p8 files have it")
        return ProviderToken(key, self._text("key_id", _NAME), self._text("team_id", _NAME), clock)

    def _load_certificate(self, context: ssl.SSLContext) -> None:
        for name in ("cert", "key"):
            if name not in self._members:
                raise self._error(name, "missing: cert and key, or key with key_id and team_id")
        try:
            load_pem_x509_certificates(self._file("cert"))
        except ValueError:
            raise self._error("cert", "expected a file with a certificate in PEM") from None
        self._private_key(self._file("key"))
        try:
            context.load_cert_chain(self._path("cert"), self._path("key"))
        except ssl.SSLError:
            raise self._error("key", "does not belong to the certificate") from None

    def _private_key(self, pem: bytes) -> object:
        try:
            return load_pem_private_key(pem, None)
        except TypeError:
            problem = "the key is protected by a password; expected one without"
        except (ValueError, UnsupportedAlgorithm):
            problem = "expected a private key in PEM"
        raise self._error("key", problem)

    def _path(self, member: str) -> Path:
        return Path(str(self._members[member])).expanduser()

    def _file(self, member: str) -> bytes:
        try:
            return self._path(member).read_bytes()
        except (OSError, ValueError, RuntimeError) as error:  # RuntimeError: no such home folder
            reason = error.strerror if isinstance(error, OSError) else "not a path"
            path = shown_path(str(self._members[member]))
            raise self._error(member, f"the file{path} cannot be read: {reason}") from None

    def _text(self, member: str, pattern: re.Pattern[str], default: str = "") -> str:
        value = str(self._members.get(member, default))
        self._check(member, pattern.fullmatch(value) is not None)
        return value

    def _number(self, member: str, default: int, allowed: range | tuple[int, ...]) -> int:
        value = self._members.get(member, default)
        self._check(member, value in allowed)
        return value if isinstance(value, int) else default

    def _check(self, member: str, is_valid: bool) -> None:
        if not is_valid:
            raise self._error(member, f"expected {_MEMBERS[member][1]}")

    def _error(self, member: str, problem: str) -> StartupError:
        return StartupError(f"apns_creds: {self._channel}: {member}: {problem}")
