"""HTTP responses: JSON, plain text and errors.

Rule: only `ErrorResponses` makes the JSON documents of errors, so that all have one shape.
"""

from collections.abc import Sequence
from typing import Final

import orjson

from autopush.net.http_messages import Response
from autopush.webpush.errors import ERRORS, Errno, PushError, error_members
from keytables import ItemTooLarge, KeytablesError, OutOfReach, StorageFull, Throttled, Unconfirmed

NOT_HTTP_ANCHOR: Final = "errors-http"
"""Fragment, on the page of errors, for refusals without an errno."""

Headers = Sequence[tuple[str, str]]

_ERRNO_OF_STATUS: Final = {
    404: Errno.INVALID_ENDPOINT,
    413: Errno.PAYLOAD_TOO_LARGE,
    429: Errno.RATE_EXCEEDED,
    500: Errno.UNKNOWN,
    503: Errno.BACK_OFF,
}


def json(status: int, document: object, headers: Headers = ()) -> Response:
    return Response(status, orjson.dumps(document), headers, "application/json")


def text(status: int, content: str, headers: Headers = ()) -> Response:
    return Response(status, content.encode(), headers, "text/plain; charset=utf-8")


def storage_refusal(failure: KeytablesError) -> PushError:
    if isinstance(failure, Unconfirmed):
        message = "The store did not confirm the message: it may arrive, and twice if sent again"
        return PushError(Errno.BACK_OFF, message)
    if isinstance(failure, OutOfReach):
        return PushError(Errno.BACK_OFF, "The store does not answer")
    if isinstance(failure, Throttled):
        return PushError(Errno.BACK_OFF, "Please slow message send rate")
    if isinstance(failure, StorageFull):
        return PushError(Errno.STORE_FULL, "The disk of the service is nearly full")
    if isinstance(failure, ItemTooLarge):
        return PushError(Errno.PAYLOAD_TOO_LARGE, "The message is too large to be stored")
    return PushError(Errno.RETRY, "Communication error, please retry")


def not_found() -> PushError:
    """404 whose `error` is the original's text, not the reason phrase."""
    return PushError(Errno.INVALID_ENDPOINT, "No page has this path", phrase="Page not found")


def method_not_allowed(allowed: str) -> PushError:
    allow = ("Allow", f"{allowed}, OPTIONS, HEAD")
    return PushError(Errno.INVALID_ENDPOINT, f"Use {allowed}", headers=(allow,), status=405)


def no_websocket_here(url: str) -> PushError:
    message = f"No WebSocket is opened here; user agents connect to {url}"
    return PushError(Errno.INVALID_ENDPOINT, message)


def upgrade_required(url: str) -> PushError:
    """426, with the Upgrade header that RFC 9110 section 15.5.22 requires."""
    return PushError(
        Errno.INVALID_ENDPOINT,
        f"Here user agents open WebSockets: {url}",
        headers=(("Upgrade", "websocket"), ("Connection", "Upgrade")),
        status=426,
    )


class ErrorResponses:
    """The documented JSON of each error. `page`: the URL of the page of errors, for `more_info`."""

    def __init__(self, page: str) -> None:
        self._more_info = {errno: f"{page}#{kind.anchor}" for errno, kind in ERRORS.items()}
        self._not_http = f"{page}#{NOT_HTTP_ANCHOR}"

    def of(self, refusal: PushError) -> Response:
        document = error_members(refusal, self._more_info[refusal.errno])
        return json(refusal.status, document, refusal.headers)

    def of_protocol(self, status: int, reason: str) -> Response:
        """For errors that are not a `PushError`: malformed HTTP, or an unexpected failure."""
        errno = _ERRNO_OF_STATUS.get(status)
        if errno is not None:
            return self.of(PushError(errno, reason, status=status))
        document = {"code": status, "errno": None, "error": reason, "message": reason}
        return json(status, document | {"more_info": self._not_http})
