"""`/v1/err` and `/__error__`: an operator checks that errors reach the logs.

Rule: every call logs exactly one error and answers 418, so that log and answer can be matched.
"""

from autopush import answers
from autopush.net.http_messages import Response
from autopush.telemetry import logs
from autopush.webpush.errors import Errno, PushError

TEAPOT = 418
_log = logs.get("log_check")


class LogCheckError(Exception):
    """Raised and logged on purpose."""


def log_check(kind: str) -> Response:
    """Log an error (`kind` contains "error" or is empty) or an exception ("crit"), and say so."""
    kind = kind.lower()
    if not kind or "error" in kind:
        _log.error("Test Error Message", status_code=TEAPOT, errno=0)
        return _answer("Test Error", "ERROR:Success")
    if "crit" in kind:
        try:
            raise LogCheckError("LogCheck")
        except LogCheckError as error:
            _log.exception("Test Critical Message", error=error, status_code=TEAPOT, errno=0)
        return _answer("Test Failure", "FAILURE:Success")
    return answers.error(PushError(Errno.NOTHING_HERE, "the log check knows error and crit"))


def _answer(error: str, message: str) -> Response:
    return answers.json(TEAPOT, {"code": TEAPOT, "errno": 999, "error": error, "message": message})
