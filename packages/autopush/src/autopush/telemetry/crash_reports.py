"""Sends errors with a traceback to Sentry.

Rule: what leaves is the traceback without variables and source lines, the text of the exception,
and the fields of the log line but for those of the client. The SDK gets no hook into anything: no
integration of it is used, so it sees neither requests nor the command line.

Reports of one type of exception are bounded in number, so that a fault on the way of every message
floods nothing. They are sent by a thread of the SDK, from a queue of 100.
"""

import logging
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final, cast

from .log_format import redact
from .repeats import RepeatLimiter

if TYPE_CHECKING:
    from sentry_sdk import Client
    from sentry_sdk.types import Event, Hint

REPORTS_PER_MINUTE: Final = 10
"""Of one type of exception."""
FLUSH_TIMEOUT: Final = 2.0

_OWN_LOGGERS: Final = ("sentry_sdk", "urllib3")
"""A failure to send must not be sent."""
_OF_REQUEST: Final = ("request_id", "method", "uri")
"""What of `client_info` leaves."""


class CrashReports(logging.Handler):
    """Makes a report of each record that has an exception, from `start` on."""

    def __init__(
        self,
        connect: "Callable[[], Client]",
        *,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(logging.ERROR)
        self._connect = connect
        self._client: Client | None = None
        self._limiter = RepeatLimiter(REPORTS_PER_MINUTE, 60.0, monotonic=monotonic)

    def start(self) -> None:
        """Open the client: after a fork, since it has a thread."""
        if self._client is None:
            self._client = self._connect()

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        if self._client is None or error is None or record.name.startswith(_OWN_LOGGERS):
            return
        count = self._limiter.admit(type(error).__qualname__)
        if count is None:
            return
        try:
            self._report(self._client, record, error, count)
        except Exception as failure:  # noqa: BLE001 - a log call never raises
            # Without the exception, so that it does not come here again.
            reason = type(failure).__name__
            logging.getLogger(__name__).error("An error cannot be reported to Sentry: %s", reason)  # noqa: TRY400

    def close(self) -> None:
        """Send what waits, for at most `FLUSH_TIMEOUT` seconds."""
        super().close()
        if self._client is not None:
            client, self._client = self._client, None
            client.close(timeout=FLUSH_TIMEOUT)

    def _report(
        self,
        client: "Client",
        record: logging.LogRecord,
        error: BaseException,
        count: dict[str, int],
    ) -> None:
        from sentry_sdk.utils import event_from_exception  # noqa: PLC0415 - an optional dependency

        mechanism = {"type": "logging", "handled": True}
        event, hint = event_from_exception(error, client.options, mechanism)
        event["level"] = "fatal" if record.levelno >= logging.CRITICAL else "error"
        event["logger"] = record.name
        event["logentry"] = {"message": record.getMessage()}
        event["extra"] = _extra(record) | count
        client.capture_event(event, hint)


def open_crash_reports(dsn: str, *, release: str, environment: str, hostname: str) -> CrashReports:
    """Reports to the project of that DSN.

    :raises ModuleNotFoundError: the SDK is not installed
    :raises ValueError: not a DSN
    """
    import sentry_sdk  # noqa: PLC0415 - an optional dependency
    from sentry_sdk.utils import Dsn  # noqa: PLC0415

    Dsn(dsn)

    def connect() -> sentry_sdk.Client:
        return sentry_sdk.Client(
            dsn=dsn,
            release=release,
            environment=environment,
            server_name=hostname,
            before_send=_scrub,
            debug=False,
            default_integrations=False,
            auto_enabling_integrations=False,
            auto_session_tracking=False,
            enable_backpressure_handling=False,
            include_local_variables=False,
            include_source_context=False,
            max_breadcrumbs=0,
            max_request_body_size="never",
            propagate_traces=False,
            spotlight=False,
        )

    return CrashReports(connect)


def _extra(record: logging.LogRecord) -> dict[str, object]:
    fields: Mapping[str, object] = getattr(record, "fields", {})
    extra = {name: fields[name] for name in fields if name not in ("client_info", "timings")}
    info = fields.get("client_info")
    if isinstance(info, dict):
        extra |= {name: info[name] for name in _OF_REQUEST if name in info}
    return extra


def _scrub(event: "Event", _: "Hint") -> "Event":
    return cast("Event", redact(event))
