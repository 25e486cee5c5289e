"""Many pushes in one request, for application servers that the operator lists.

    POST /push/batch   NDJSON: a message in each line, a result in each line of the response

Rule: each line becomes a request to the endpoint port, answered like any other push: one way in
which a message is checked, limited, logged and forwarded.
"""

import asyncio
from collections.abc import Iterable
from io import BytesIO
from typing import Final

import msgspec
import orjson

from autopush.api.push import PUSH_HEADERS, Push, PushHandler, push_within
from autopush.api.request_log import RequestLog
from autopush.api.responses import method_not_allowed
from autopush.limits import LimitRefusals
from autopush.net.http_messages import Request, Response
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
"""Messages of a batch that wait for the store, another worker or a provider at once."""
EACH_TURN: Final = 8
"""Messages of a batch that are begun in one turn of the event loop: less than a millisecond."""
MAX_BATCHES: Final = 4
"""Batches under way in a worker; further ones are refused."""

_TAKEN: Final = frozenset(PUSH_HEADERS.split(","))
"""Headers of a message; others are ignored."""
_TOLD: Final = frozenset({"link", "location", "retry-after", "ttl"})
"""Headers of the answer that stand in a result."""


class _Message(msgspec.Struct, gc=False):
    endpoint: str
    headers: dict[str, str | int] = {}
    body: str = ""


_decoder: Final = msgspec.json.Decoder(_Message)


class BatchHandler:
    """`keys`: public VAPID keys of those who may send batches."""

    def __init__(
        self,
        keys: Iterable[str],
        pushes: PushHandler,
        requests: RequestLog,
        refusals: LimitRefusals,
    ) -> None:
        self._allowed = AllowedSenders(keys)
        self._pushes = pushes
        self._max_line = LINE_BYTES + 2 * pushes.max_data
        self._requests = requests
        self._refusals = refusals
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
            raise PushError(Errno.PAYLOAD_TOO_LARGE, f"A batch has at most {MAX_MESSAGES} messages")
        if self._under_way >= MAX_BATCHES:
            raise PushError(Errno.BACK_OFF, "Too many batches under way")
        self._under_way += 1
        try:
            results = await self._push_all(request, authorization, push)
        finally:
            self._under_way -= 1
        if not results:
            raise PushError.invalid(Errno.MALFORMED_BODY, "expected a message in each line")
        return Response(200, b"".join(results), content_type=CONTENT_TYPE)

    async def _check_sender(self, request: Request) -> str:
        """The Authorization of a sender that may send batches."""
        authorization = request.headers.get("authorization")
        credentials = self._pushes.verifier.credentials(authorization, None)
        if authorization is None or credentials is None:
            self._refusals.add("batch_senders")
            raise PushError(
                Errno.VAPID_REQUIRED, "missing authorization header: a batch requires VAPID"
            )
        if not self._allowed.has(credentials):
            self._refusals.add("batch_senders")
            raise PushError(
                Errno.SENDER_NOT_ALLOWED, "The key of this sender is not listed for batches"
            )
        await self._pushes.verify(credentials, authorization)
        return authorization

    async def _push_all(self, request: Request, authorization: str, push: Push) -> list[bytes]:
        """The results, in the order of the messages."""
        results: list[bytes] = []
        free = asyncio.Semaphore(MAX_UNDER_WAY)

        async def push_one(number: int, line: bytes) -> None:
            try:
                if len(line) > self._max_line:
                    raise PushError(
                        Errno.PAYLOAD_TOO_LARGE, f"A line has at most {self._max_line} bytes"
                    )
                inner = read_message(line, request, authorization)
            except PushError as refusal:
                response = self._requests.refused(request, refusal)
            else:
                response = await push(inner)
            results[number] = result_line(response)
            free.release()

        async with asyncio.TaskGroup() as group:
            for line in BytesIO(request.body):  # split as it is sent: at once it would take long
                if line.isspace():
                    continue
                await free.acquire()
                group.create_task(push_one(len(results), line))
                results.append(b"")
                if len(results) % EACH_TURN == 0:
                    await asyncio.sleep(0)
        return results


def read_message(line: bytes, request: Request, authorization: str) -> Request:
    """The push of one line. Without an Authorization of its own it has the batch's.

    :raises PushError: 400/122
    """
    try:
        message = _decoder.decode(line)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise PushError.invalid(Errno.MALFORMED_BODY, f"the line: {error}") from None
    headers = {"authorization": authorization}
    for name, value in message.headers.items():
        text = str(value)
        if not (text.isascii() and text.isprintable()):
            raise PushError.invalid(Errno.MALFORMED_BODY, "headers: expected printable ASCII")
        if (key := name.lower()) in _TAKEN:
            headers[key] = text
    try:
        body = decode_base64url(message.body)
    except ValueError as error:
        raise PushError.invalid(Errno.MALFORMED_BODY, f"body: {error}") from None
    return push_within(request, message.endpoint, headers, body)


def result_line(response: Response) -> bytes:
    """What became of one message, as a line of JSON."""
    result: dict[str, object] = {"status": response.status}
    for header, value in response.headers:
        name = header.lower()
        if name in _TOLD:  # two Link headers become one, as in RFC 9110 section 5.3
            result[name] = f"{result[name]}, {value}" if name in result else value
    if response.status >= 400 and response.content_type == "application/json":
        document = orjson.loads(response.body)
        result["errno"], result["message"] = document["errno"], document["message"]
    return orjson.dumps(result, option=orjson.OPT_APPEND_NEWLINE)
