"""The errors a sender can meet, in one table.

Rule: messages show the value that was refused, as `autopush.shown` writes it, and what was
expected. They never contain a token, a key or a secret.
"""

from collections.abc import Iterable, Mapping, Sequence
from enum import IntEnum
from functools import lru_cache
from http import HTTPStatus
from math import ceil
from typing import Final, Self

INVALID_PREFIX: Final = "Request did not validate "

Header = tuple[str, str]


def _row(errno: int, status: int, title: str, advice: str) -> tuple[int, int, str, str]:
    return errno, status, title, advice


class Errno(IntEnum):
    """The errors a sender can meet. `title`: what is wrong. `help`: what the sender does next."""

    status: int
    title: str
    help: str

    def __new__(cls, errno: int, status: int, title: str, advice: str) -> Self:
        member = int.__new__(cls, errno)
        member._value_ = errno
        member.status, member.title, member.help = status, title, advice
        return member

    NOTHING_HERE = _row(
        0,
        404,
        "No such test",
        "The log check knows the paths /v1/err/error and /v1/err/crit. Nothing was tested.",
    )
    # 1 to 5 and 900 to 903 are those of bridges.
    FCM_MISSING_REGISTRATION = _row(
        1,
        500,
        "FCM, legacy API: missing registration",
        "The device never gave a registration token. Subscribe again on the device.",
    )
    FCM_INVALID_PACKAGE = _row(
        2,
        500,
        "FCM, legacy API: invalid package name",
        "The operator's FCM project does not belong to this application. Tell the operator.",
    )
    FCM_INVALID_DATA_KEY = _row(
        3,
        500,
        "FCM, legacy API: invalid data key",
        "The service sent FCM a member it reserves. Tell the operator.",
    )
    FCM_DEVICE_RATE = _row(
        4,
        503,
        "FCM, legacy API: too many messages for one device",
        "Send less often to this device and use an exponential back-off.",
    )
    FCM_TOPIC_RATE = _row(
        5,
        503,
        "FCM, legacy API: too many messages for one topic",
        "Send less often to this topic and use an exponential back-off.",
    )
    MISSING_CRYPTO_KEYS = _row(
        101,
        400,
        "Missing necessary crypto keys",
        "Add the element that the message text names: salt= in Encryption, dh= in Crypto-Key or "
        "Encryption-Key. Better send Content-Encoding: aes128gcm, which has both in the body "
        "(RFC 8291).",
    )
    INVALID_ENDPOINT = _row(
        102,
        404,
        "Invalid URL endpoint",
        "Use the endpoint exactly as the subscription gave it: whole, unchanged, with its "
        "version. If it is unchanged, it was made with keys this service no longer has: delete "
        "the subscription.",
    )
    EXPIRED_ENDPOINT = _row(
        103,
        410,
        "Expired URL endpoint",
        "The user agent is gone. Delete the subscription and do not send to it again.",
    )
    PAYLOAD_TOO_LARGE = _row(
        104,
        413,
        "Payload too large",
        "Send a smaller body. The message text names the limit in bytes, counted after encryption.",
    )
    ENDPOINT_UNAVAILABLE = _row(
        105,
        410,
        "Endpoint became unavailable during the request",
        "The user agent went away while the message was on its way, or its bridge refuses it for "
        "good. Delete the subscription.",
    )
    INVALID_SUBSCRIPTION = _row(
        106,
        410,
        "Invalid subscription",
        "The user unsubscribed. Delete the subscription and do not send to it again.",
    )
    INVALID_ROUTER_TYPE = _row(
        108,
        400,
        "Router type is invalid",
        "For a push: the bridge of this device is not available here. For the registration API: "
        "check the router type and the application in the URL (with 308, use the one in Location), "
        "and that the body is a JSON object with valid members.",
    )
    INVALID_AUTHENTICATION = _row(
        109,
        401,
        "Invalid authentication",
        "For a push: sign a fresh VAPID token (RFC 8292, ES256) for the origin of the endpoint, "
        "valid for at most 24 hours, with the key the subscription was made with. For the "
        "registration API: send the secret that registration returned. Where the service requires "
        "TLS certificates of its clients: connect with one that is listed.",
    )
    INVALID_CRYPTO = _row(
        110,
        400,
        "Invalid crypto keys",
        "Send Content-Encoding: aes128gcm and the body as RFC 8291 builds it; with aesgcm, also "
        "Encryption with salt= and Crypto-Key with dh=.",
    )
    MISSING_HEADER = _row(
        111,
        400,
        "Missing required header",
        "Add the header that the message text names. Every push needs TTL, in seconds.",
    )
    INVALID_TTL = _row(
        112,
        400,
        "Invalid TTL header value",
        "Send TTL as a whole number of seconds, 0 or greater, in digits only.",
    )
    INVALID_TOPIC = _row(
        113,
        400,
        "Invalid Topic header value",
        "Send at most 32 characters of A-Z a-z 0-9 - _ (RFC 8030, section 5.4).",
    )
    INVALID_URGENCY = _row(
        115,
        400,
        "Invalid Urgency header value",
        "Send one of very-low, low, normal and high, once (RFC 8030, section 5.3).",
    )
    # Later versions of the original sent it, this one sends 112.
    NEGATIVE_TTL = _row(
        114,
        400,
        "TTL is negative",
        "Reserved: this service answers 112 to a negative TTL. Send 0 or greater.",
    )
    VAPID_REQUIRED = _row(
        120,
        401,
        "VAPID is required",
        "This service takes no messages of unknown senders. Sign each push (RFC 8292) with the key "
        "that the subscription was made with.",
    )
    SENDER_NOT_ALLOWED = _row(
        121,
        403,
        "Sender not allowed",
        "The operator allows certain application servers only, by their VAPID key or the sub of "
        "their tokens. Ask the operator.",
    )
    MALFORMED_BODY = _row(
        122,
        400,
        "Malformed body",
        "Send the JSON document that the message text describes.",
    )
    ACCOUNT_REQUIRED = _row(
        123,
        401,
        "An account is required",
        "The operator admits the user agents of certain users only. Ask the operator for a token, "
        "and put it at the end of the WebSocket URL. With 403 the token given is not valid (any "
        "more).",
    )
    BACK_OFF = _row(
        201,
        503,
        "Use exponential back-off",
        "The service is overloaded, or its store does not answer; the message text says which. "
        "Send the same request again later, waiting twice as long "
        "after each refusal; begin with the seconds in Retry-After.",
    )
    RETRY = _row(
        202,
        503,
        "Immediate retry OK",
        "A passing failure. Send the same request again.",
    )
    RATE_EXCEEDED = _row(
        203,
        429,
        "Too many requests",
        "The message text names the limit. Send again after the seconds in Retry-After, and more "
        "slowly.",
    )
    TOO_MANY_STORED = _row(
        204,
        429,
        "Too many messages are stored for this user agent",
        "The user agent has not connected for long, and nothing more is stored for it until it "
        "does or messages expire. Send again after the seconds in Retry-After; use Topic, so that "
        "a message replaces the one before it, and a TTL no longer than the message is of use.",
    )
    STORE_FULL = _row(
        205,
        503,
        "The disk of the service is nearly full",
        "New messages are refused until space is free again. Send again after the seconds in "
        "Retry-After. Tell the operator if it stays.",
    )
    BRIDGE_MISCONFIGURED = _row(
        900,
        500,
        "Bridge misconfigured",
        "The service has no credentials for the bridge of this device. Tell the operator.",
    )
    BRIDGE_REFUSED = _row(
        901,
        502,
        "Bridge authentication failed",
        "The bridge does not accept the credentials of this service. Tell the operator. For GCM "
        "and the legacy API of FCM the status is 500.",
    )
    BRIDGE_UNREACHABLE = _row(
        902,
        502,
        "Cannot connect to the bridge",
        "The bridge of this device does not answer. Send again later.",
    )
    BRIDGE_TIMEOUT = _row(
        903,
        502,
        "Bridge timeout",
        "The bridge of this device took too long. Send again later.",
    )
    UNKNOWN = _row(
        999,
        500,
        "Unknown error",
        "The fault is with the service. Send again later; tell the operator if it stays.",
    )

    @property
    def anchor(self) -> str:
        """Its fragment in the errors page, for example `errno-102`."""
        return f"errno-{int(self)}"


ERRORS: Final[Mapping[int, Errno]] = {int(errno): errno for errno in Errno}

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
