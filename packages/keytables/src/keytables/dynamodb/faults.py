"""What an answer that is no success means.

The rule: the kind is told by the server's code alone, and by the status where there is none. The
server's words may repeat what was sent, so they are shown to nobody but the one whose request was
wrong in itself.
"""

from enum import Enum, auto
from typing import Final

import msgspec

from keytables.dynamodb.connection import Answer

__all__ = ["Fault", "Kind", "read_fault"]


class Kind(Enum):
    """What is to be done about it."""

    JUDGED = auto()  # a verdict on the request: the engine's to read
    THROTTLED = auto()  # not applied, later it may be
    RETRY = auto()  # not applied, for a reason that passes
    BROKEN = auto()  # not known whether it was applied
    FORBIDDEN = auto()  # known, and lacks the right
    CREDENTIALS = auto()  # not known, or no longer
    SIGNATURE = auto()  # wrong secret key, or wrong clock


class Fault(msgspec.Struct, frozen=True):
    """``code`` is without the prefix of its namespace; of an answer that is none of DynamoDB's it
    tells the status."""

    kind: Kind
    code: str
    message: str
    body: bytes


class _Error(msgspec.Struct):
    type: str = msgspec.field(name="__type", default="")
    message: str = ""
    capital: str = msgspec.field(name="Message", default="")


_read = msgspec.json.Decoder(_Error).decode

_KINDS: Final = {
    # The item is in a transaction of somebody else's, or was written in another region just now.
    "TransactionConflictException": Kind.THROTTLED,
    "ReplicatedWriteConflictException": Kind.THROTTLED,
    "ProvisionedThroughputExceededException": Kind.THROTTLED,
    "ProvisionedThroughputExceeded": Kind.THROTTLED,
    "RequestLimitExceeded": Kind.THROTTLED,
    "RequestThrottled": Kind.THROTTLED,
    "RequestThrottledException": Kind.THROTTLED,
    "SlowDown": Kind.THROTTLED,
    "Throttling": Kind.THROTTLED,
    "ThrottlingException": Kind.THROTTLED,
    "ThrottledException": Kind.THROTTLED,
    "TooManyRequestsException": Kind.THROTTLED,
    "RequestTimeout": Kind.RETRY,
    "RequestTimeoutException": Kind.RETRY,
    "InternalFailure": Kind.BROKEN,
    "InternalServerError": Kind.BROKEN,
    "InternalServerErrorException": Kind.BROKEN,
    "ServiceUnavailable": Kind.BROKEN,
    "ServiceUnavailableException": Kind.BROKEN,
    "AccessDenied": Kind.FORBIDDEN,
    "AccessDeniedException": Kind.FORBIDDEN,
    "NotAuthorized": Kind.FORBIDDEN,
    "ExpiredToken": Kind.CREDENTIALS,
    "ExpiredTokenException": Kind.CREDENTIALS,
    "IncompleteSignature": Kind.CREDENTIALS,
    "IncompleteSignatureException": Kind.CREDENTIALS,
    "InvalidClientTokenId": Kind.CREDENTIALS,
    "MissingAuthenticationToken": Kind.CREDENTIALS,
    "MissingAuthenticationTokenException": Kind.CREDENTIALS,
    "UnrecognizedClientException": Kind.CREDENTIALS,
    "InvalidSignatureException": Kind.SIGNATURE,
    "RequestExpired": Kind.SIGNATURE,
    "RequestTimeTooSkewed": Kind.SIGNATURE,
    "SignatureDoesNotMatch": Kind.SIGNATURE,
}


def read_fault(answer: Answer) -> Fault:
    """Read any answer but a success (status 200 with a JSON object)."""
    status = answer.status
    try:
        error = _read(answer.body)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        error = _Error()
    code = error.type.rpartition("#")[2]
    kind = _KINDS.get(code)
    if kind is None:
        if status == 429:
            kind = Kind.THROTTLED
        elif 400 <= status < 500 and code:
            kind = Kind.JUDGED
        else:  # a server's failure, or the answer of something that is no such database
            kind = Kind.BROKEN
    return Fault(kind, code or f"HTTP {status}", error.message or error.capital, answer.body)
