"""Logging handlers for Sentry (errors with a traceback) and Amazon Data Firehose (all lines).

Each sends in a thread, with a bounded queue in front of it.
"""

import logging
import queue
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, Protocol, TypedDict, cast

from autopush.telemetry.log_format import redact, render
from autopush.telemetry.logs import RepeatLimiter
from keytables.retries import Backoff

if TYPE_CHECKING:
    from sentry_sdk import Client
    from sentry_sdk.types import Event, Hint

_log: Final = logging.getLogger(__name__)

# ── Sentry ────────────────────────────────────────────────────────────────────────────────────────

REPORTS_PER_MINUTE: Final = 10
"""For each type of exception."""
SENTRY_TIMEOUT: Final = 2.0
"""Seconds to wait for pending reports at shutdown."""

_TRANSPORT_LOGGERS: Final = ("sentry_sdk", "urllib3")
"""Loggers used while sending: a failure to send must not be reported."""
_REPORTED_FIELDS: Final = ("request_id", "method", "uri")
"""Members of `client_info` that are reported."""


class CrashReports(logging.Handler):
    """Reports each record that has an exception, from `start` on.

    Rule: a report holds the traceback without variables and source lines, the text of the
    exception, and the record's fields without those of the client. No integration of the SDK is
    used, so it sees neither requests nor the command line.
    """

    has_own_limit: Final = True
    """Events of one type; `logs.RepeatFilter` would hide how many there were."""

    def __init__(
        self, connect: "Callable[[], Client]", *, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        super().__init__(logging.ERROR)
        self._connect = connect
        self._client: Client | None = None
        self._limiter = RepeatLimiter(REPORTS_PER_MINUTE, 60.0, monotonic=monotonic)

    def start(self) -> None:
        """To be called after a fork, since the client has a thread."""
        if self._client is None:
            self._client = self._connect()

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        if self._client is None or error is None or record.name.startswith(_TRANSPORT_LOGGERS):
            return
        count = self._limiter.admit(type(error).__qualname__)
        if count is None:
            return
        try:
            self._report(self._client, record, error, count)
        except Exception as failure:  # noqa: BLE001 - a log call never raises
            # Without `exc_info`, so that this is not reported too.
            reason = type(failure).__name__
            _log.error("An error cannot be reported to Sentry: %s", reason)

    def close(self) -> None:
        """Send pending reports, for at most `SENTRY_TIMEOUT` seconds."""
        super().close()
        if self._client is not None:
            client, self._client = self._client, None
            client.close(timeout=SENTRY_TIMEOUT)

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
    """:raises ModuleNotFoundError: the SDK is not installed
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
        extra |= {name: info[name] for name in _REPORTED_FIELDS if name in info}
    return extra


def _scrub(event: "Event", _: "Hint") -> "Event":
    return cast("Event", redact(event))


# ── Firehose ──────────────────────────────────────────────────────────────────────────────────────

SEPARATOR: Final = b"\x1e"
"""Precedes each record, so that readers can tell the records of a file apart (RFC 7464)."""
MAX_RECORDS: Final = 500
MAX_BYTES: Final = 3 * 1024 * 1024
"""Of one batch: in base64, as it is sent, 4 MiB, the limit."""
MAX_RECORD_BYTES: Final = 1_000 * 1024
FLUSH_INTERVAL: Final = 30.0
"""Seconds that a line waits for others at most."""
RETRIES: Final = 3
PAUSES: Final = Backoff(0.5, 2.0, jitter=0.5)
"""Before each retry."""
CLOSE_TIMEOUT: Final = 3.0
CALL_TIMEOUT: Final = 10.0
REPORT_INTERVAL: Final = 10.0
DEFAULT_REGION: Final = "us-east-1"


class _Record(TypedDict):
    Data: bytes


class FirehoseClient(Protocol):
    """The part of botocore's client that is used."""

    def put_record_batch(
        self,
        *,
        DeliveryStreamName: str,  # noqa: N803 - the name in the API
        Records: Sequence[_Record],  # noqa: N803
    ) -> dict[str, object]: ...


class DeliveryStream(logging.Handler):
    """Sends each record's line to a delivery stream, from `start` on.

    `capacity`: lines that may wait. `connect` is called in the thread. Lost lines are logged at
    most every `REPORT_INTERVAL`, and at the end.
    """

    def __init__(
        self,
        stream: str,
        connect: Callable[[], FirehoseClient],
        *,
        capacity: int,
        flush_interval: float = FLUSH_INTERVAL,
        pauses: Backoff = PAUSES,
    ) -> None:
        super().__init__()
        # Its own reports would be lost too.
        self.addFilter(lambda record: record.name != __name__)
        self._stream = stream
        self._connect = connect
        self._client: FirehoseClient | None = None
        self._capacity = capacity
        self._flush_interval = flush_interval
        self._pauses = pauses
        self._lines: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._closing = threading.Event()
        self._dropped = 0  # counted by logging threads
        self._undelivered = 0  # counted by the sending thread
        self._reported = 0
        self._reports = RepeatLimiter(1, REPORT_INTERVAL)

    @property
    def lost(self) -> int:
        """Lines that were dropped or could not be delivered, so far."""
        return self._dropped + self._undelivered

    def start(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="firehose", daemon=True)
            self._thread.start()

    def emit(self, record: logging.LogRecord) -> None:
        if self._thread is not None and self.formatter is not None:
            self.put(render(self.formatter, record))

    def put(self, line: bytes) -> None:
        """Queue a line; dropped if the queue is full or the line too long."""
        if self._lines.qsize() < self._capacity and len(line) < MAX_RECORD_BYTES:
            self._lines.put(SEPARATOR + line)
        else:
            self._dropped += 1

    def close(self) -> None:
        """Send pending lines, each batch once, for at most `CLOSE_TIMEOUT` seconds."""
        super().close()
        if self._thread is not None:
            self._closing.set()
            self._lines.put(None)
            self._thread.join(CLOSE_TIMEOUT)
            self._thread = None
            self._report("shutdown", is_last=True)

    # ── in the thread ─────────────────────────────────────────────────────────────────────────────

    def _run(self) -> None:
        batch: list[bytes] = []
        size = 0
        due = 0.0
        while True:
            wait = max(0.0, due - time.monotonic()) if batch else None
            try:
                record = self._lines.get(timeout=wait)
            except queue.Empty:
                self._send(batch)
                batch, size = [], 0
                continue
            if record is None:
                self._send(batch)
                return
            if size + len(record) > MAX_BYTES:
                self._send(batch)
                batch, size = [], 0
            if not batch:
                due = time.monotonic() + self._flush_interval
            batch.append(record)
            size += len(record)
            if len(batch) == MAX_RECORDS:
                self._send(batch)
                batch, size = [], 0

    def _send(self, batch: list[bytes]) -> None:
        cause = ""
        for attempt in range(RETRIES + 1):
            if not batch:
                break
            if attempt and self._closing.wait(self._pauses.delay(attempt)):
                break
            try:
                batch, cause = self._put(batch)
            except Exception as error:  # noqa: BLE001 - of botocore, whatever it is
                cause = type(error).__name__
        self._undelivered += len(batch)
        self._report(cause)

    def _put(self, batch: list[bytes]) -> tuple[list[bytes], str]:
        """Returns the records that were not taken, and the code of an error."""
        if self._client is None:
            self._client = self._connect()
        answer = self._client.put_record_batch(
            DeliveryStreamName=self._stream, Records=[{"Data": record} for record in batch]
        )
        if not answer.get("FailedPutCount"):
            return [], ""
        results = answer["RequestResponses"]
        assert isinstance(results, list)
        pairs = zip(batch, results, strict=True)
        failed = [(record, str(each["ErrorCode"])) for record, each in pairs if "ErrorCode" in each]
        return [record for record, _ in failed], failed[-1][1] if failed else ""

    def _report(self, cause: str, *, is_last: bool = False) -> None:
        lost = self.lost - self._reported
        if lost and (is_last or self._reports.admit("lost") is not None):
            self._reported += lost
            fields = {"lost": lost, "cause": cause or "the queue was full"}
            _log.error("Log lines lost: Firehose did not take them", extra={"fields": fields})


def open_stream(name: str, *, capacity: int) -> DeliveryStream:
    """Region, endpoint and credentials come from AWS's environment and files, at the first batch.

    :raises ModuleNotFoundError: botocore is not installed
    """
    import botocore.session  # noqa: PLC0415 - an optional dependency
    from botocore.config import Config  # noqa: PLC0415

    def connect() -> FirehoseClient:
        session = botocore.session.get_session()
        # `_send` retries, and only what failed.
        config = Config(
            connect_timeout=CALL_TIMEOUT,
            read_timeout=CALL_TIMEOUT,
            retries={"total_max_attempts": 1},
        )
        region = session.get_config_variable("region") or DEFAULT_REGION
        client = session.create_client("firehose", region_name=region, config=config)
        return cast(FirehoseClient, client)

    return DeliveryStream(name, connect, capacity=capacity)
