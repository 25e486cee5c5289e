"""When a call is tried again, and with which error it ends.

Rule: a call ends in time. Once an attempt of it may have been applied, its error never says that it
was not.
"""

from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

import msgspec

from keytables.dynamodb.connections import HttpResponse, NotSent, PoolExhausted, ResponseLost
from keytables.dynamodb.signing import CREDENTIALS_HELP
from keytables.errors import AccessRefused, KeytablesError, Throttled, Unavailable, Unconfirmed
from keytables.retries import Attempts, Backoff

CALL_TIMEOUT: Final = 4.0
"""Seconds for a call with all its attempts."""


_READS: Final = frozenset({"GetItem", "BatchGetItem", "Query", "Scan"})


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """Limits of attempts; times in seconds."""

    backoff: Backoff = Backoff(0.025, 1.0)  # noqa: RUF009 - it is immutable
    attempts: int = 4
    """Of a call; one that may take longer has one for each second."""
    attempt_timeout: float = 1.5
    """Of one attempt, at least."""
    batch_timeout: float = 10.0
    """For each call of a batch, and for what the database leaves unprocessed."""
    table_timeout: float = 300.0
    """For a table to be created, changed or deleted."""
    table_backoff: Backoff = Backoff(0.025, 2.0)  # noqa: RUF009
    """Tables take seconds to change, and few calls a second about them are allowed."""

    def seconds_per_attempt(self, time_limit: float) -> float:
        """Return the time of one attempt: a call that may take long asks for something slow."""
        return max(self.attempt_timeout, time_limit / self.attempts)


class ServiceError(Exception):
    """The database rejected the request, for a reason that the engine has to interpret.

    ``code``: without its namespace. ``body``: the whole response. ``maybe_applied``: an earlier
    attempt of this call may have been applied.
    """

    def __init__(
        self, code: str, message: str, body: bytes, *, maybe_applied: bool = False
    ) -> None:
        super().__init__(code, message)
        self.code = code
        self.message = message
        self.body = body
        self.maybe_applied = maybe_applied

    def __str__(self) -> str:
        return f"{self.code}: {self.message}"


# --- error responses ------------------------------------------------------------------------------


class ErrorKind(Enum):
    REJECTED = auto()  # the request itself: for the engine to interpret
    THROTTLED = auto()  # not applied, for lack of capacity
    TRANSIENT = auto()  # not applied, for another reason that passes
    AMBIGUOUS = auto()  # it is not known whether it was applied
    FORBIDDEN = auto()  # the caller is known and lacks the permission
    CREDENTIALS = auto()  # the credentials are unknown or expired
    SIGNATURE = auto()  # the secret key is wrong, or the clock


class ErrorResponse(msgspec.Struct, frozen=True):
    """``code``: without its namespace, or as ``HTTP 502``. ``message`` may repeat what was sent."""

    kind: ErrorKind
    code: str
    message: str
    body: bytes


class _ErrorBody(msgspec.Struct):
    type: str = msgspec.field(name="__type", default="")
    message: str = ""
    capitalized: str = msgspec.field(name="Message", default="")


_decode_body = msgspec.json.Decoder(_ErrorBody).decode

_KINDS: Final = {
    # The item is in a transaction of another client, or was written in another region just now.
    "TransactionConflictException": ErrorKind.THROTTLED,
    "ReplicatedWriteConflictException": ErrorKind.THROTTLED,
    "ProvisionedThroughputExceededException": ErrorKind.THROTTLED,
    "ProvisionedThroughputExceeded": ErrorKind.THROTTLED,
    "RequestLimitExceeded": ErrorKind.THROTTLED,
    "RequestThrottled": ErrorKind.THROTTLED,
    "RequestThrottledException": ErrorKind.THROTTLED,
    "SlowDown": ErrorKind.THROTTLED,
    "Throttling": ErrorKind.THROTTLED,
    "ThrottlingException": ErrorKind.THROTTLED,
    "ThrottledException": ErrorKind.THROTTLED,
    "TooManyRequestsException": ErrorKind.THROTTLED,
    "RequestTimeout": ErrorKind.TRANSIENT,
    "RequestTimeoutException": ErrorKind.TRANSIENT,
    "InternalFailure": ErrorKind.AMBIGUOUS,
    "InternalServerError": ErrorKind.AMBIGUOUS,
    "InternalServerErrorException": ErrorKind.AMBIGUOUS,
    "ServiceUnavailable": ErrorKind.AMBIGUOUS,
    "ServiceUnavailableException": ErrorKind.AMBIGUOUS,
    "AccessDenied": ErrorKind.FORBIDDEN,
    "AccessDeniedException": ErrorKind.FORBIDDEN,
    "NotAuthorized": ErrorKind.FORBIDDEN,
    "ExpiredToken": ErrorKind.CREDENTIALS,
    "ExpiredTokenException": ErrorKind.CREDENTIALS,
    "IncompleteSignature": ErrorKind.CREDENTIALS,
    "IncompleteSignatureException": ErrorKind.CREDENTIALS,
    "InvalidClientTokenId": ErrorKind.CREDENTIALS,
    "MissingAuthenticationToken": ErrorKind.CREDENTIALS,
    "MissingAuthenticationTokenException": ErrorKind.CREDENTIALS,
    "UnrecognizedClientException": ErrorKind.CREDENTIALS,
    "InvalidSignatureException": ErrorKind.SIGNATURE,
    "RequestExpired": ErrorKind.SIGNATURE,
    "RequestTimeTooSkewed": ErrorKind.SIGNATURE,
    "SignatureDoesNotMatch": ErrorKind.SIGNATURE,
}


def read_error(response: HttpResponse) -> ErrorResponse:
    """Classify an error response by its code, or by its status where it has none."""
    status = response.status
    try:
        error = _decode_body(response.body)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        error = _ErrorBody()
    code = error.type.rpartition("#")[2]
    kind = _KINDS.get(code)
    if kind is None:
        if status == 429:
            kind = ErrorKind.THROTTLED
        elif 400 <= status < 500 and code:
            kind = ErrorKind.REJECTED
        else:  # a failure of the server, or the response of something that is no such database
            kind = ErrorKind.AMBIGUOUS
    message = error.message or error.capitalized
    return ErrorResponse(kind, code or f"HTTP {status}", message, response.body)


# --- one call -------------------------------------------------------------------------------------


class RetryState:
    """The failures of one call: each method returns the seconds until the next attempt, or raises
    the error that the call ends with.

    ``deadline``, ``now``: times of the event loop. Errors contain no message of the server, which
    may repeat what was sent.
    """

    __slots__ = ("_attempts", "_subject", "_used", "maybe_applied")

    def __init__(
        self,
        operation: str,
        table: str | None,
        *,
        policy: RetryPolicy,
        deadline: float,
        time_limit: float,
    ) -> None:
        self._subject = (operation, table)
        attempts = max(policy.attempts, int(time_limit))
        self._attempts = Attempts(policy.backoff, deadline, most=attempts)
        self._used: set[str] = set()
        self.maybe_applied = False
        """An earlier attempt may have been applied."""

    def first_use(self, remedy: str) -> bool:
        """Return whether a remedy is new to this call; each is used once."""
        if remedy in self._used:
            return False
        self._used.add(remedy)
        return True

    def on_not_sent(self, failure: NotSent, now: float) -> float:
        """Raises Throttled or Unavailable."""
        if isinstance(failure, PoolExhausted):
            raise self._throttled(str(failure)) from failure
        return self._retry(self._unavailable(str(failure)), now)

    def on_response_lost(self, failure: ResponseLost, now: float) -> float:
        """Raises Unavailable."""
        self.maybe_applied = True
        if failure.stale and self.first_use("new connection"):
            return 0.0
        return self._retry(self._unavailable(str(failure)), now)

    def on_error(self, error: ErrorResponse, now: float, *, repaired: bool) -> float:
        """``repaired``: the credentials or the clock that the server refused are others now.

        Raises Throttled, Unavailable, AccessRefused or ServiceError.
        """
        match error.kind:
            case ErrorKind.REJECTED:
                raise ServiceError(
                    error.code, error.message, error.body, maybe_applied=self.maybe_applied
                )
            case ErrorKind.FORBIDDEN:
                raise AccessRefused(*self._subject)
            case ErrorKind.CREDENTIALS | ErrorKind.SIGNATURE if repaired:
                return 0.0
            case ErrorKind.CREDENTIALS:
                raise self._unavailable(
                    f"the credentials are refused ({error.code}). {CREDENTIALS_HELP}"
                )
            case ErrorKind.SIGNATURE:
                raise self._unavailable(
                    f"the signature is refused ({error.code}): the secret key does not belong to "
                    "the access key, or the server has another region or host name"
                )
            case ErrorKind.THROTTLED:
                return self._retry(self._throttled(error.code), now)
            case ErrorKind.AMBIGUOUS:
                self.maybe_applied = True
        return self._retry(self._unavailable(f"the server fails ({error.code})"), now)

    def _retry(self, error: KeytablesError, now: float) -> float:
        delay = self._attempts.next_delay(now)
        if delay is None:
            try:
                raise error
            finally:
                del error  # it refers to this frame, and would keep everything the call held
        return delay

    def _throttled(self, reason: str) -> KeytablesError:
        if self.maybe_applied:
            return self._unavailable(f"an earlier attempt may have been applied; now {reason}")
        return Throttled(self._text(reason))

    def _unavailable(self, reason: str) -> Unavailable:
        is_open = self.maybe_applied and self._subject[0] not in _READS
        return (Unconfirmed if is_open else Unavailable)(self._text(reason))

    def _text(self, reason: str) -> str:
        operation, table = self._subject
        return f"{operation} on table {table!r}: {reason}" if table else f"{operation}: {reason}"
