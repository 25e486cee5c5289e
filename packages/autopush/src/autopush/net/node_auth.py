"""Authentication of calls between nodes: one handshake for each link, then a MAC on each message.

    the node that calls                                         the worker of instance I
    GET /i/I/session   authorization: autopush-node NONCE.MAC.MAC…  ─▶  a MAC for each key of the
                                                                       caller: any known will do
    ◀─ 200 SESSION     authentication-info: MAC of NONCE and SESSION
    PUT /i/I/push/…    authorization: autopush-node SESSION.1.MAC   ─▶  MAC of number, method, path
                                                                       and body
    ◀─ 200             authentication-info: MAC of number, status and body

Each side contributes a random number to the session key, so no message of one session is valid in
another; within a session the numbers increase. No clock is needed. The called side answers first,
so a process without the keys on the port of an earlier node learns only an instance name and a
random number.

Each start of a worker makes a new instance name: a later node on the same port has another one, and
says so (404) with a MAC. `ANY_INSTANCE` names whichever is there.

Rule: a message counts only with its MAC, in both directions; nothing in it is used before.

The headers are those of RFC 9110 section 11.6 (authentication-info is the server's half of a mutual
authentication). MACs are HMAC-SHA-256 (RFC 2104), cut to 128 bits. Messages are not encrypted: that
is for TLS.
"""

import hmac
import secrets
from collections.abc import Iterator, Sequence
from typing import Final

import msgspec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.hmac import HMAC

SCHEME: Final = "autopush-node"
REQUEST_HEADER: Final = "authorization"
RESPONSE_HEADER: Final = "authentication-info"
MAX_SESSIONS: Final = 16_384
"""Sessions a worker remembers; beyond that the oldest are dropped, and opened again."""
MAX_PROOFS: Final = 16
"""Keys that a caller may offer."""

ANY_INSTANCE: Final = "any"
"""Whichever worker is at that place now."""
_PREFIX: Final = "/i/"
_SESSION: Final = "/session"
_START: Final = f"{SCHEME} "
_MAC_BYTES: Final = 16
_NONCE_BYTES: Final = 16
_INSTANCE_BYTES: Final = 12


def new_instance() -> str:
    """A name unique to this worker: 16 characters of base64url."""
    return secrets.token_urlsafe(_INSTANCE_BYTES)


def instance_url(base: str, instance: str) -> str:
    """The URL that calls to that worker begin with; `base` is its port's."""
    return f"{base}{_PREFIX}{instance}"


def split_instance_url(url: str) -> tuple[str, str]:
    """The `base` of an `instance_url`, and the path of the instance; "" where there is none."""
    base, prefix, instance = url.rpartition(_PREFIX)
    return base, f"{prefix}{instance}"


def is_instance_path(path: str) -> bool:
    """Whether `path` is the path of an `instance_url`, with nothing after it."""
    return path.startswith(_PREFIX) and len(path) > len(_PREFIX) and "/" not in path[len(_PREFIX) :]


def _mac(key: HMAC, text: str, body: bytes = b"") -> str:
    # Copying a context takes a third of the time of `hmac.digest`.
    context = key.copy()
    context.update(text.encode() + body)
    return context.finalize()[:_MAC_BYTES].hex()


def _contexts(keys: Sequence[bytes]) -> tuple[HMAC, ...]:
    return tuple(HMAC(key, SHA256()) for key in keys)


def _is(expected: str, given: str) -> bool:
    return given.isascii() and hmac.compare_digest(expected, given)


def _session_key(key: HMAC, base: str, nonce: str, session: str) -> HMAC:
    context = key.copy()
    context.update(f"session key {base} {nonce} {session}".encode())
    return HMAC(context.finalize(), SHA256())


# ── The node that calls ───────────────────────────────────────────────────────────────────────────


class HandshakeFailed(Exception):  # noqa: N818 - named for what happened
    """The peer has not proved that it is a node of this service; the text says what it did."""


class InstanceGone(Exception):  # noqa: N818 - a state
    """A node with a known key says that it is another instance."""


class CallerSession:
    """The caller's side of a session with the instance at path `base`; `keys`: newest first."""

    __slots__ = ("_base", "_key", "_keys", "_nonce", "_number", "_session")

    def __init__(self, keys: Sequence[bytes], base: str) -> None:
        self._keys = _contexts(keys[:MAX_PROOFS])
        self._base = base
        self._nonce = secrets.token_hex(_NONCE_BYTES)
        self._session = ""
        self._key = self._keys[0]  # until the session is open
        self._number = 0

    def opening(self) -> tuple[str, str]:
        """Path and `REQUEST_HEADER` of the opening request, a GET."""
        text = f"open {self._base} {self._nonce}"
        proofs = ".".join([_mac(key, text) for key in self._keys])
        return f"{self._base}{_SESSION}", f"{_START}{self._nonce}.{proofs}"

    def opened(self, status: int, body: bytes, proof: str) -> None:
        """Take the response to the opening; then messages can be signed.

        :raises InstanceGone: it is another instance
        :raises HandshakeFailed: it has no MAC of a known key
        """
        session = body.decode("latin-1")
        for key in self._keys:
            if _is(_mac(key, f"{status} {self._base} {self._nonce} {session}"), proof):
                if status != 200:
                    raise InstanceGone("another instance has its place")
                self._session = session
                self._key = _session_key(key, self._base, self._nonce, session)
                return
        if status == 401:
            raise HandshakeFailed("it refuses the crypto_key of this node")
        raise HandshakeFailed("another program answers there, or a node of an older version")

    def sign(self, method: str, path: str, body: bytes) -> tuple[int, str]:
        """The number and `REQUEST_HEADER` of a request; `path` begins with `base`."""
        self._number = number = self._number + 1
        mac = _mac(self._key, f"{number} {method} {path}\n", body)
        return number, f"{_START}{self._session}.{number}.{mac}"

    def is_authentic(self, number: int, status: int, body: bytes, proof: str) -> bool:
        """Whether this is the instance's response to request `number`."""
        return _is(_mac(self._key, f"{number} {status}\n", body), proof)


# ── The node that is called ───────────────────────────────────────────────────────────────────────


class Unauthenticated(Exception):  # noqa: N818 - a state
    """Not an authentic request of a node; the text says why and quotes nothing of it."""


class Opened(msgspec.Struct, frozen=True):
    """The response to a request for a session: 200, or 404 from another instance."""

    status: int
    session: str  # the body of the response
    proof: str


class Call(msgspec.Struct, gc=False, frozen=True):
    """An authentic request. `path`: what follows the instance, as in `/push/{uaid}`."""

    path: str
    key: HMAC
    number: int

    def proof(self, status: int, body: bytes) -> str:
        """The `RESPONSE_HEADER` of its response."""
        return _mac(self.key, f"{self.number} {status}\n", body)


class _Session:
    __slots__ = ("base", "key", "last")

    def __init__(self, key: HMAC, base: str) -> None:
        self.key, self.base = key, base
        self.last = 0  # the number of the latest request


class Sessions:
    """Sessions of the worker with that instance name; any of `keys` is accepted."""

    def __init__(
        self, keys: Sequence[bytes], instance: str, *, max_sessions: int = MAX_SESSIONS
    ) -> None:
        self._keys = _contexts(keys)
        self._base = f"{_PREFIX}{instance}"
        self._max_sessions = max_sessions
        self._sessions: dict[str, _Session] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def receive(self, method: str, path: str, body: bytes, authorization: str) -> Call | Opened:
        """Authenticate a request to a path of any instance.

        :raises Unauthenticated: it is not from a node with a known key
        """
        if not authorization.startswith(_START):
            raise Unauthenticated("without a signature")
        parts = authorization[len(_START) :].split(".")
        if path.endswith(_SESSION):
            return self._open(path.removesuffix(_SESSION), parts)
        if len(parts) != 3:
            raise Unauthenticated("a malformed signature")
        name, digits, mac = parts
        session = self._sessions.get(name)
        if session is None or not path.startswith(session.base):
            raise Unauthenticated("an unknown session")
        if not _is(_mac(session.key, f"{digits} {method} {path}\n", body), mac):
            raise Unauthenticated("a wrong signature")
        number = int(digits)  # the caller has signed it
        if number <= session.last:
            raise Unauthenticated("repeated")
        session.last = number
        return Call(path[len(session.base) :], session.key, number)

    def _open(self, base: str, parts: list[str]) -> Opened:
        nonce, proofs = parts[0], parts[1 : MAX_PROOFS + 1]
        key = next(self._known(f"open {base} {nonce}", proofs), None)
        if key is None:
            raise Unauthenticated("no crypto_key in common")
        if base not in (self._base, f"{_PREFIX}{ANY_INSTANCE}"):
            return Opened(404, "", _mac(key, f"404 {base} {nonce} "))
        session = secrets.token_hex(_NONCE_BYTES)
        while len(self._sessions) >= self._max_sessions:
            del self._sessions[next(iter(self._sessions))]
        self._sessions[session] = _Session(_session_key(key, base, nonce, session), base)
        return Opened(200, session, _mac(key, f"200 {base} {nonce} {session}"))

    def _known(self, text: str, proofs: Sequence[str]) -> Iterator[HMAC]:
        for key in self._keys:
            expected = _mac(key, text)
            if any(_is(expected, proof) for proof in proofs):
                yield key
