"""HTTP responses: JSON, plain text, and the one shape of all errors.

Rule: every error that reaches a client is made here, so that all have one shape.
"""

from collections.abc import Sequence
from typing import Final

import orjson

from autopush.net.http_messages import Response
from autopush.webpush.errors import Errno, PushError, error_members
from keytables import ItemTooLarge, KeytablesError, Throttled

Headers = Sequence[tuple[str, str]]

_ERRNO_OF_STATUS: Final = {
    404: Errno.INVALID_ENDPOINT,
    413: Errno.PAYLOAD_TOO_LARGE,
    500: Errno.UNKNOWN,
    503: Errno.BACK_OFF,
}


def json(status: int, document: object, headers: Headers = ()) -> Response:
    """A JSON response."""
    return Response(status, orjson.dumps(document), headers, "application/json")


def text(status: int, content: str, headers: Headers = ()) -> Response:
    """A response in plain text."""
    return Response(status, content.encode(), headers, "text/plain; charset=utf-8")


def error(refusal: PushError) -> Response:
    """A refused request, in the documented JSON shape."""
    return json(refusal.status, error_members(refusal), refusal.headers)


def storage_refusal(failure: KeytablesError) -> PushError:
    """The error for a sender when the store failed."""
    if isinstance(failure, Throttled):
        return PushError(Errno.BACK_OFF, "Please slow message send rate")
    if isinstance(failure, ItemTooLarge):
        return PushError(Errno.PAYLOAD_TOO_LARGE, "The message is too large to be stored")
    return PushError(Errno.RETRY, "Communication error, please retry")


def protocol_error(status: int, reason: str) -> Response:
    """What the HTTP server itself responds to a bad request, in the documented JSON shape."""
    errno = _ERRNO_OF_STATUS.get(status)
    if errno is not None:
        return error(PushError(errno, reason, status=status))
    return json(status, {"code": status, "errno": None, "error": reason, "message": reason})


def not_found() -> Response:
    """No page has this path. `error` is the original's text, not that of the status."""
    document = error_members(PushError(Errno.INVALID_ENDPOINT, "No page has this path"))
    return json(404, document | {"error": "Page not found"})


def method_not_allowed(allowed: str) -> Response:
    """The path exists, but not for this method."""
    allow = ("Allow", f"{allowed}, OPTIONS, HEAD")
    return error(PushError(Errno.INVALID_ENDPOINT, f"Use {allowed}", headers=(allow,), status=405))
