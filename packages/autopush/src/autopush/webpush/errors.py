"""The errors a sender can meet, in one table.

Rule: messages describe the shape of a wrong value, and never contain a token, a key or a secret.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import lru_cache
from http import HTTPStatus
from math import ceil
from types import MappingProxyType
from typing import Final

INVALID_PREFIX: Final = "Request did not validate "

Header = tuple[str, str]


class Errno(IntEnum):
    """Names of the error numbers; see :data:`ERRORS`."""

    NOTHING_HERE = 0
    # 1 to 5 and 900 to 903 are those of bridges.
    FCM_MISSING_REGISTRATION = 1
    FCM_INVALID_PACKAGE = 2
    FCM_INVALID_DATA_KEY = 3
    FCM_DEVICE_RATE = 4
    FCM_TOPIC_RATE = 5
    MISSING_CRYPTO_KEYS = 101
    INVALID_ENDPOINT = 102
    EXPIRED_ENDPOINT = 103
    PAYLOAD_TOO_LARGE = 104
    ENDPOINT_UNAVAILABLE = 105
    INVALID_SUBSCRIPTION = 106
    INVALID_ROUTER_TYPE = 108
    INVALID_AUTHENTICATION = 109
    INVALID_CRYPTO = 110
    MISSING_HEADER = 111
    INVALID_TTL = 112
    INVALID_TOPIC = 113
    NEGATIVE_TTL = 114  # reserved: later versions of the original sent it, this one sends 112
    INVALID_URGENCY = 115
    VAPID_REQUIRED = 120
    SENDER_NOT_ALLOWED = 121
    MALFORMED_BODY = 122
    ACCOUNT_REQUIRED = 123
    BACK_OFF = 201
    RETRY = 202
    RATE_EXCEEDED = 203
    TOO_MANY_STORED = 204
    STORE_FULL = 205
    BRIDGE_MISCONFIGURED = 900
    BRIDGE_REFUSED = 901
    BRIDGE_UNREACHABLE = 902
    BRIDGE_TIMEOUT = 903
    UNKNOWN = 999


@dataclass(frozen=True, slots=True)
class ErrorKind:
    """``title``: what is wrong. ``help``: what the sender does next."""

    errno: Errno
    status: int
    title: str
    help: str

    @property
    def anchor(self) -> str:
        """Its fragment in the errors page, for example ``errno-102``."""
        return f"errno-{int(self.errno)}"


def _table(*rows: ErrorKind) -> Mapping[int, ErrorKind]:
    return MappingProxyType({int(row.errno): row for row in rows})


ERRORS: Final[Mapping[int, ErrorKind]] = _table(
    ErrorKind(
        Errno.NOTHING_HERE,
        404,
        "No such test",
        "The log check knows the paths /v1/err/error and /v1/err/crit. Nothing was tested.",
    ),
    ErrorKind(
        Errno.FCM_MISSING_REGISTRATION,
        500,
        "FCM, legacy API: missing registration",
        "The device never gave a registration token. Subscribe again on the device.",
    ),
    ErrorKind(
        Errno.FCM_INVALID_PACKAGE,
        500,
        "FCM, legacy API: invalid package name",
        "The operator's FCM project does not belong to this application. Tell the operator.",
    ),
    ErrorKind(
        Errno.FCM_INVALID_DATA_KEY,
        500,
        "FCM, legacy API: invalid data key",
        "The service sent FCM a member it reserves. Tell the operator.",
    ),
    ErrorKind(
        Errno.FCM_DEVICE_RATE,
        503,
        "FCM, legacy API: too many messages for one device",
        "Send less often to this device and use an exponential back-off.",
    ),
    ErrorKind(
        Errno.FCM_TOPIC_RATE,
        503,
        "FCM, legacy API: too many messages for one topic",
        "Send less often to this topic and use an exponential back-off.",
    ),
    ErrorKind(
        Errno.MISSING_CRYPTO_KEYS,
        400,
        "Missing necessary crypto keys",
        "Add the element that the message text names: salt= in Encryption, dh= in Crypto-Key or "
        "Encryption-Key. Better send Content-Encoding: aes128gcm, which has both in the body "
        "(RFC 8291).",
    ),
    ErrorKind(
        Errno.INVALID_ENDPOINT,
        404,
        "Invalid URL endpoint",
        "Use the endpoint exactly as the subscription gave it: whole, unchanged, with its "
        "version. If it is unchanged, it was made with keys this service no longer has: delete "
        "the subscription.",
    ),
    ErrorKind(
        Errno.EXPIRED_ENDPOINT,
        410,
        "Expired URL endpoint",
        "The user agent is gone. Delete the subscription and do not send to it again.",
    ),
    ErrorKind(
        Errno.PAYLOAD_TOO_LARGE,
        413,
        "Payload too large",
        "Send a smaller body. The message text names the limit in bytes, counted after encryption.",
    ),
    ErrorKind(
        Errno.ENDPOINT_UNAVAILABLE,
        410,
        "Endpoint became unavailable during the request",
        "The user agent went away while the message was on its way, or its bridge refuses it for "
        "good. Delete the subscription.",
    ),
    ErrorKind(
        Errno.INVALID_SUBSCRIPTION,
        410,
        "Invalid subscription",
        "The user unsubscribed. Delete the subscription and do not send to it again.",
    ),
    ErrorKind(
        Errno.INVALID_ROUTER_TYPE,
        400,
        "Router type is invalid",
        "For a push: the bridge of this device is not available here. For the registration API: "
        "check the router type and the application in the URL (with 308, use the one in Location), "
        "and that the body is a JSON object with valid members.",
    ),
    ErrorKind(
        Errno.INVALID_AUTHENTICATION,
        401,
        "Invalid authentication",
        "For a push: sign a fresh VAPID token (RFC 8292, ES256) for the origin of the endpoint, "
        "valid for at most 24 hours, with the key the subscription was made with. For the "
        "registration API: send the secret that registration returned. Where the service requires "
        "TLS certificates of its clients: connect with one that is listed.",
    ),
    ErrorKind(
        Errno.INVALID_CRYPTO,
        400,
        "Invalid crypto keys",
        "Send Content-Encoding: aes128gcm and the body as RFC 8291 builds it; with aesgcm, also "
        "Encryption with salt= and Crypto-Key with dh=.",
    ),
    ErrorKind(
        Errno.MISSING_HEADER,
        400,
        "Missing required header",
        "Add the header that the message text names. Every push needs TTL, in seconds.",
    ),
    ErrorKind(
        Errno.INVALID_TTL,
        400,
        "Invalid TTL header value",
        "Send TTL as a whole number of seconds, 0 or greater, in digits only.",
    ),
    ErrorKind(
        Errno.INVALID_TOPIC,
        400,
        "Invalid Topic header value",
        "Send at most 32 characters of A-Z a-z 0-9 - _ (RFC 8030, section 5.4).",
    ),
    ErrorKind(
        Errno.INVALID_URGENCY,
        400,
        "Invalid Urgency header value",
        "Send one of very-low, low, normal and high, once (RFC 8030, section 5.3).",
    ),
    ErrorKind(
        Errno.NEGATIVE_TTL,
        400,
        "TTL is negative",
        "Reserved: this service answers 112 to a negative TTL. Send 0 or greater.",
    ),
    ErrorKind(
        Errno.VAPID_REQUIRED,
        401,
        "VAPID is required",
        "This service takes no messages of unknown senders. Sign each push (RFC 8292) with the key "
        "that the subscription was made with.",
    ),
    ErrorKind(
        Errno.SENDER_NOT_ALLOWED,
        403,
        "Sender not allowed",
        "The operator allows certain application servers only, by their VAPID key or the sub of "
        "their tokens. Ask the operator.",
    ),
    ErrorKind(
        Errno.MALFORMED_BODY,
        400,
        "Malformed body",
        "Send the JSON document that the message text describes.",
    ),
    ErrorKind(
        Errno.ACCOUNT_REQUIRED,
        401,
        "An account is required",
        "The operator admits the user agents of certain users only. Ask the operator for a token, "
        "and put it at the end of the WebSocket URL. With 403 the token given is not valid (any "
        "more).",
    ),
    ErrorKind(
        Errno.BACK_OFF,
        503,
        "Use exponential back-off",
        "The service is overloaded. Send the same request again later, waiting twice as long "
        "after each refusal; begin with the seconds in Retry-After.",
    ),
    ErrorKind(
        Errno.RETRY,
        503,
        "Immediate retry OK",
        "A passing failure. Send the same request again.",
    ),
    ErrorKind(
        Errno.RATE_EXCEEDED,
        429,
        "Too many requests",
        "The message text names the limit. Send again after the seconds in Retry-After, and more "
        "slowly.",
    ),
    ErrorKind(
        Errno.TOO_MANY_STORED,
        429,
        "Too many messages are stored for this user agent",
        "The user agent has not connected for long, and nothing more is stored for it until it "
        "does or messages expire. Send again after the seconds in Retry-After; use Topic, so that "
        "a message replaces the one before it, and a TTL no longer than the message is of use.",
    ),
    ErrorKind(
        Errno.STORE_FULL,
        503,
        "The disk of the service is nearly full",
        "New messages are refused until space is free again. Send again after the seconds in "
        "Retry-After. Tell the operator if it stays.",
    ),
    ErrorKind(
        Errno.BRIDGE_MISCONFIGURED,
        500,
        "Bridge misconfigured",
        "The service has no credentials for the bridge of this device. Tell the operator.",
    ),
    ErrorKind(
        Errno.BRIDGE_REFUSED,
        502,
        "Bridge authentication failed",
        "The bridge does not accept the credentials of this service. Tell the operator. For GCM "
        "and the legacy API of FCM the status is 500.",
    ),
    ErrorKind(
        Errno.BRIDGE_UNREACHABLE,
        502,
        "Cannot connect to the bridge",
        "The bridge of this device does not answer. Send again later.",
    ),
    ErrorKind(
        Errno.BRIDGE_TIMEOUT,
        502,
        "Bridge timeout",
        "The bridge of this device took too long. Send again later.",
    ),
    ErrorKind(
        Errno.UNKNOWN,
        500,
        "Unknown error",
        "The fault is with the service. Send again later; tell the operator if it stays.",
    ),
)

# Headers implied by a status; an error's own headers win.
_STATUS_HEADERS: Final[Mapping[int, Header]] = {
    401: ("WWW-Authenticate", "vapid"),
    410: ("Cache-Control", "max-age=86400"),
    429: ("Retry-After", "60"),
    503: ("Retry-After", "120"),
}


class PushError(Exception):
    """A refused request.

    ``status``: by default that of the table. ``headers`` override those that the status implies
    (401 ``WWW-Authenticate: vapid``, 410 ``Cache-Control``, 429 and 503 ``Retry-After``, but not
    with errno 202). ``retry_after``: seconds of that header. ``errors``: complaints by field, for a
    malformed request. ``phrase``: replaces the reason phrase.
    """

    def __init__(
        self,
        errno: int,
        message: str,
        *,
        headers: Iterable[Header] = (),
        errors: Mapping[str, Sequence[str]] | None = None,
        status: int | None = None,
        phrase: str = "",
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message)
        self.kind: Final = ERRORS[errno]
        self.errno: Final = int(errno)
        self.message: Final = message
        self.status: Final = self.kind.status if status is None else status
        self.errors: Final = errors
        self.phrase: Final = phrase or reason_phrase(self.status)
        self._own_headers = tuple(headers)
        if retry_after is not None:
            self._own_headers += (("Retry-After", str(ceil(retry_after))),)
        self.router_type = ""
        """The user's router type, if known."""

    @classmethod
    def invalid(
        cls,
        errno: int,
        detail: str,
        *,
        headers: Iterable[Header] = (),
        errors: Mapping[str, Sequence[str]] | None = None,
        status: int | None = None,
    ) -> "PushError":
        """``detail`` gets the prefix ``Request did not validate``."""
        return cls(errno, INVALID_PREFIX + detail, headers=headers, errors=errors, status=status)

    @property
    def headers(self) -> tuple[Header, ...]:
        """Without ``Content-Type: application/json``."""
        implied = _STATUS_HEADERS.get(self.status)
        if self.errno == Errno.RETRY:
            implied = None  # it means "at once", which a pause would contradict
        if implied is None or any(n.lower() == implied[0].lower() for n, _ in self._own_headers):
            return self._own_headers
        return (*self._own_headers, implied)


@lru_cache(64)
def reason_phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "Error"


def error_members(error: PushError, more_info: str) -> dict[str, object]:
    """The members of the JSON error response. ``more_info``: the URL that explains it."""
    document: dict[str, object] = {
        "code": error.status,
        "errno": error.errno,
        "error": error.phrase,
        "message": error.message,
        "more_info": more_info,
    }
    if error.errors is not None:
        document["errors"] = {field: list(said) for field, said in error.errors.items()}
    return document
