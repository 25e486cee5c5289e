"""The log check: an operator sees whether errors reach the logs and Sentry.

    GET /v1/err, /v1/err/{type with "error"}    logs an error
    GET /v1/err/{type with "crit"}              logs an exception
    GET /__error__                              logs both, each with a traceback

Answered is 418 with the text that was logged, so that log and response can be matched.
"""

from typing import Final

from autopush.api.request_log import RequestLog
from autopush.api.responses import ErrorResponses
from autopush.limits import LimitRefusals, TokenBuckets
from autopush.net.http_messages import Request, Response
from autopush.telemetry import logs
from autopush.webpush.errors import Errno, PushError

TEAPOT: Final = 418
ERROR: Final = "ERROR:Success"

_log = logs.get("log_check")


class LogCheckError(Exception):
    """Raised and logged on purpose."""


class LogCheck:
    """The pages of the log check, the same on every public port.

    `rates`: of each page, from whomever the requests come.
    """

    def __init__(
        self,
        errors: ErrorResponses,
        requests: RequestLog,
        rates: TokenBuckets,
        refusals: LimitRefusals,
    ) -> None:
        self._errors = errors
        self._requests = requests
        self._rates = rates
        self._refusals = refusals

    def respond(self, request: Request) -> Response | None:
        """Log, and respond; None for any other path or method."""
        match request.method, *request.path.split("/")[1:]:
            case "GET", "v1", "err":
                return self._refusal(request, "error") or self._error(request)
            case "GET", "v1", "err", kind if kind:
                return self._check(request, kind.lower())
            case "GET", "__error__":
                refusal = self._refusal(request, "both")
                if refusal is None:
                    self._raise(request, "LogCheck")
                return refusal or self._error(request, LogCheckError(ERROR))
        return None

    def _refusal(self, request: Request, page: str) -> Response | None:
        """429 where a page is asked for too often."""
        wait = self._rates.take(page)
        if not wait:
            return None
        self._refusals.add("log_check_rate", request.client_address)
        too_often = "The log check is asked for too often"
        return self._errors.of(PushError(Errno.RATE_EXCEEDED, too_often, retry_after=wait))

    def _check(self, request: Request, kind: str) -> Response:
        if "error" in kind:
            return self._refusal(request, "error") or self._error(request)
        if "crit" in kind:
            refusal = self._refusal(request, "crit")
            if refusal is None:
                self._raise(request, "LogCheck")
            return refusal or self._teapot("Test Failure", "FAILURE:Success")
        unknown = PushError(Errno.NOTHING_HERE, "the log check knows error and crit")
        return self._errors.of(unknown)

    def _error(self, request: Request, error: Exception | None = None) -> Response:
        _log.error("Test Error Message", exc_info=error, **self._fields(request))
        return self._teapot("Test Error", ERROR)

    def _raise(self, request: Request, text: str) -> None:
        try:
            raise LogCheckError(text)
        except LogCheckError as error:
            _log.exception("Test Critical Message", error=error, **self._fields(request))

    def _fields(self, request: Request) -> dict[str, object]:
        client_info = self._requests.client_info(request)
        return {"status_code": TEAPOT, "errno": 0, "client_info": client_info}

    def _teapot(self, error: str, message: str) -> Response:
        return self._errors.of(PushError(Errno.UNKNOWN, message, status=TEAPOT, phrase=error))
