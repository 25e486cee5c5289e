"""Many pushes in one request, for application servers that the operator lists.

    POST /push/batch   NDJSON: a message in each line, a result in each line of the response

Rule: each line becomes a request, answered like any other push: one way in which a message is
checked, limited, logged and forwarded.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from io import BytesIO
from typing import Final

import msgspec
import orjson

from autopush.api.forwarding import Forwarding
from autopush.api.push import (
    PUSH_HEADERS,
    Push,
    PushHandler,
    client_headers,
    push_path,
    push_within,
)
from autopush.api.request_log import RequestLog
from autopush.api.responses import method_not_allowed
from autopush.limits import LimitRefusals
from autopush.net.http_messages import Request, Response
from autopush.shown import shown
from autopush.webpush.errors import Errno, PushError
from autopush.webpush.syntax import decode_base64url
from autopush.webpush.vapid import AllowedSenders

PATH: Final = ("push", "batch")
CONTENT_TYPE: Final = "application/x-ndjson"

MAX_MESSAGES: Final = 1_000
MAX_BODY: Final = 4 * 1024 * 1024
"""Bytes of all messages together, which are copied once, in about a millisecond."""
LINE_BYTES: Final = 16_384
"""The longest line without its body."""
MAX_UNDER_WAY: Final = 64
"""Messages of a batch in progress at once: each waits for the store, a worker or a provider."""
STARTED_TOGETHER: Final = 16
"""Messages of a batch started in one iteration of the event loop, in less than a millisecond."""
MAX_BATCHES: Final = 4
"""Batches in progress in a worker; further ones are refused."""

_MESSAGE_HEADERS: Final = frozenset(PUSH_HEADERS.split(","))
"""Headers that a message may have; others are ignored."""
_RESULT_HEADERS: Final = {
    spelling: name
    for name in ("link", "location", "retry-after", "ttl")
    for spelling in (name, name.title(), name.upper())
}
"""Headers of a response that its result repeats: each spelling, and the name in the result."""


class _Message(msgspec.Struct, gc=False):
    """`headers`: not decoded, since most messages of a batch have the same ones."""

    endpoint: str
    headers: msgspec.Raw = msgspec.Raw(b"{}")
    body: str = ""


_decoder: Final = msgspec.json.Decoder(_Message)
_header_decoder: Final = msgspec.json.Decoder(dict[str, str | int])


@dataclass(eq=False)
class BatchHandler:
    """`keys`: public VAPID keys of those who may send batches. `forwarding`: None for a single
    worker.
    """

    keys: Iterable[str]
    pushes: PushHandler
    requests: RequestLog
    refusals: LimitRefusals
    forwarding: Forwarding | None = None

    def __post_init__(self) -> None:
        self._allowed = AllowedSenders(self.keys)
        self._max_line = LINE_BYTES + 2 * self.pushes.max_data
        self._under_way = 0

    async def __call__(self, request: Request, push: Push) -> Response:
        """:raises PushError: 401/120 or 109, 403/121, not one of the senders; 400/122, no message;
        413/104, too many; 503/201, too many batches; 405
        """
        if request.method != "POST":
            raise method_not_allowed("POST")
        authorization = await self._check_sender(request)
        body = request.body
        if body.count(b"\n") + (not body.endswith(b"\n")) > MAX_MESSAGES:
            lines = body.count(b"\n") + (not body.endswith(b"\n"))
            raise PushError(
                Errno.PAYLOAD_TOO_LARGE,
                f"A batch has at most {MAX_MESSAGES} messages, got {lines} lines",
            )
        if self._under_way >= MAX_BATCHES:
            raise PushError(Errno.BACK_OFF, "Too many batches under way")
        self._under_way += 1
        try:
            results = await self._push_all(request, authorization, push)
        finally:
            self._under_way -= 1
        if not results:
            raise PushError.invalid(
                Errno.MALFORMED_BODY,
                f"expected a message in each line, got {len(body)} bytes without one",
            )
        return Response(200, b"".join(results), content_type=CONTENT_TYPE)

    async def _check_sender(self, request: Request) -> str:
        """The Authorization of a sender that may send batches."""
        authorization = request.headers.get("authorization")
        credentials = self.pushes.verifier.credentials(authorization, None)
        if authorization is None or credentials is None:
            self.refusals.add("batch_senders")
            raise PushError(
                Errno.VAPID_REQUIRED, "missing authorization header: a batch requires VAPID"
            )
        if not self._allowed.has(credentials):
            self.refusals.add("batch_senders")
            raise PushError(
                Errno.SENDER_NOT_ALLOWED, "The key of this sender is not listed for batches"
            )
        await self.pushes.verify(credentials, authorization)
        return authorization

    async def _push_all(self, request: Request, authorization: str, push: Push) -> list[bytes]:
        """The results, in the order of the messages. `push`: answers those of other workers."""
        results: list[bytes] = []
        reader = LineReader(request, authorization, self._max_line)
        # Split while they are sent: to split all at once would block the event loop.
        lines = (line for line in BytesIO(request.body) if not line.isspace())

        async def push_lines() -> None:
            while await pace.next() and (line := next(lines, None)) is not None:
                number = len(results)
                results.append(b"")
                results[number] = result_line(await self._push_line(reader, line, push))
            pace.end()

        async with asyncio.TaskGroup() as group:
            pace = Pace(lambda: group.create_task(push_lines()))
            await pace.run()
        return results

    async def _push_line(self, reader: "LineReader", line: bytes, push: Push) -> Response:
        try:
            request = reader.read(line)
        except PushError as refusal:
            return self.requests.refused(reader.batch, refusal)
        forwarding = self.forwarding
        version, _, token = request.path.removeprefix("/wpush/").partition("/")
        if (
            not token
            or "/" in token
            or "%" in token
            or (forwarding is not None and forwarding.owner(request) is not None)
        ):
            return await push(request)
        try:
            return await self.pushes(request, version, token)
        except PushError as refusal:
            return self.requests.refused(request, refusal)
        except Exception as error:  # noqa: BLE001 - the other messages of the batch go on
            return self.requests.failed(error, request)


class Pace:
    """Lets the tasks of a batch start `STARTED_TOGETHER` messages in each iteration of the loop.

    A task whose message is answered without waiting continues with the next one, so one task may be
    enough for all. If tasks wait, more of them are started in the next iteration.

    `start`: starts a task; there are at most `MAX_UNDER_WAY`.
    """

    def __init__(self, start: Callable[[], object]) -> None:
        self._start = start
        self._loop = asyncio.get_running_loop()
        self._left = 0
        self._tasks = 0
        self._woken = 1
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._is_scheduled = self._is_over = False
        self._over = asyncio.Event()

    async def run(self) -> None:
        """Run until the last message is started."""
        self._on_turn()
        try:
            await self._over.wait()
        finally:  # also if this is cancelled
            self.end()

    async def next(self) -> bool:
        """Wait until a message may be started; False if there is none."""
        while not self._left and not self._is_over:
            future = self._loop.create_future()
            self._waiting.append(future)
            if not self._is_scheduled:
                self._schedule()
            await future
        self._left -= 1
        return not self._is_over

    def end(self) -> None:
        """Let no further message start."""
        self._is_over = True
        self._over.set()
        while self._waiting:
            self._wake()

    def _on_turn(self) -> None:
        self._is_scheduled = False
        if self._is_over:
            return
        if self._left:
            self._woken = min(2 * self._woken, STARTED_TOGETHER)
        self._left = STARTED_TOGETHER
        for _ in range(self._woken):
            if self._waiting:
                self._wake()
            elif self._tasks < MAX_UNDER_WAY:
                self._tasks += 1
                self._start()
        if self._waiting or self._tasks < MAX_UNDER_WAY:
            self._schedule()

    def _schedule(self) -> None:
        self._is_scheduled = True
        self._loop.call_soon(self._on_turn)

    def _wake(self) -> None:
        future = self._waiting.popleft()
        if not future.done():  # cancelled
            future.set_result(None)


class LineReader:
    """Reads the lines of a batch. Without an Authorization of its own a message has the batch's."""

    def __init__(self, request: Request, authorization: str, max_line: int) -> None:
        self.batch = request
        self._common = client_headers(request) | {"authorization": authorization}
        self._max_line = max_line
        self._headers: dict[bytes, dict[str, str]] = {}
        """By their JSON: a batch has few different ones."""

    def read(self, line: bytes) -> Request:
        """The push of one line.

        :raises PushError: 400/122; 413/104, too long
        """
        if len(line) > self._max_line:
            raise PushError(
                Errno.PAYLOAD_TOO_LARGE,
                f"A line has at most {self._max_line} bytes, got {len(line)}",
            )
        try:
            message = _decoder.decode(line)
            sent = bytes(message.headers)
            headers = self._headers.get(sent)
            if headers is None:
                headers = self._headers[sent] = self._common | dict(_headers_of(sent))
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
            raise PushError.invalid(Errno.MALFORMED_BODY, f"the line: {error}") from None
        try:
            body = decode_base64url(message.body)
        except ValueError as error:
            raise PushError.invalid(Errno.MALFORMED_BODY, f"body: {error}") from None
        return push_within(self.batch, push_path(message.endpoint), headers, body)


def _headers_of(sent: bytes) -> Iterator[tuple[str, str]]:
    """Those of a message that count.

    :raises PushError: 400/122
    """
    for name, value in _header_decoder.decode(sent).items():
        text = str(value)
        if not (text.isascii() and text.isprintable()):
            raise PushError.invalid(
                Errno.MALFORMED_BODY,
                f"headers: expected printable ASCII, got {shown(text)} in {shown(name)}",
            )
        if (key := name.lower()) in _MESSAGE_HEADERS:
            yield key, text


def result_line(response: Response) -> bytes:
    """The outcome of one message, as a line of JSON."""
    result: dict[str, object] = {"status": response.status}
    for header, value in response.headers:
        # Two Link headers become one, as in RFC 9110 section 5.3.
        if (name := _RESULT_HEADERS.get(header)) is not None:
            result[name] = f"{result[name]}, {value}" if name in result else value
    if response.status >= 400 and response.content_type == "application/json":
        document = orjson.loads(response.body)
        result["errno"], result["message"] = document["errno"], document["message"]
    return orjson.dumps(result, option=orjson.OPT_APPEND_NEWLINE)
