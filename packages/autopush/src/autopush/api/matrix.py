"""A push gateway for Matrix homeservers, as UnifiedPush's: a pushkey is an endpoint.

    GET  /_matrix/push/v1/notify   shows UnifiedPush's applications that there is a gateway
    POST /_matrix/push/v1/notify   pushes a notification to its devices (Push Gateway API v1)

Rule: the gateway sends no request to anywhere. A pushkey is of use only by its token, which this
service encrypted, and the push is answered here like any other.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, NamedTuple

import orjson

from autopush.api import responses
from autopush.net.http_messages import Request, Response
from autopush.shown import shown
from autopush.telemetry.metric_table import MATRIX_NOTIFICATION
from autopush.telemetry.metrics import Metrics
from autopush.webpush.errors import Errno, PushError

PATH: Final = ("_matrix", "push", "v1", "notify")
DISCOVERY: Final = {"unifiedpush": {"gateway": "matrix"}}

MAX_BODY: Final = 1024 * 1024
"""Bytes of a request. An event has 64 KiB, which JSON in ASCII makes up to six times as long."""
MAX_DEVICES: Final = 100
"""Of one notification; Synapse sends one."""
MAX_ID: Final = 255
"""Bytes of the ID of an event or a room (Matrix, appendices, "Identifier Grammar")."""
TTL: Final = "86400"
"""Seconds; for as long homeservers themselves repeat what they could not send."""
COUNTS_TOPIC: Final = "matrix-counts"
"""Of notifications without an event: they have totals, so the newest replaces those that wait."""

_FORWARDED_HEADERS: Final[tuple[str, ...]] = ("user-agent", "x-forwarded-for")
"""Headers that a push has from the request of the homeserver."""
_OF_EVENTS: Final = ("event_id", "id", "room_id", "type", "sender")

REJECTED: Final = frozenset({401, 404, 410})
"""The endpoint is gone, not of this service, or restricted to the owner of a VAPID key."""


class MatrixNotification(NamedTuple):
    """`content`: what each device gets, as JSON."""

    pushkeys: list[str]
    content: bytes
    urgency: str
    topic: str | None


class MatrixGateway:
    """`max_data`: bytes of a push. A notification that is larger, or nested too deeply, loses all
    but its IDs and counts, with which a client gets the event from its homeserver.
    """

    def __init__(self, metrics: Metrics, *, max_data: int) -> None:
        self._max_data = max_data
        self._counters = metrics.counters(MATRIX_NOTIFICATION)

    async def __call__(
        self, request: Request, push: Callable[[Request], Awaitable[Response]]
    ) -> Response:
        """`push`: answers the push for one device.

        :raises PushError: 400/122, not a notification; 429 or 503, to be sent again; 405"""
        if request.method == "GET":
            return responses.json(200, DISCOVERY)
        if request.method != "POST":
            raise responses.method_not_allowed("GET, POST")
        notification = read_notification(request.body, self._max_data)
        # A homeserver that names a device twice has it told once.
        by_path: dict[str, list[str]] = {}
        for pushkey in dict.fromkeys(notification.pushkeys):
            by_path.setdefault(_push_path(pushkey), []).append(pushkey)
        answers = await asyncio.gather(
            *(push(_push_request(request, path, notification)) for path in by_path)
        )
        rejected: list[str] = []
        retries = []
        for pushkeys, answer in zip(by_path.values(), answers, strict=True):
            if answer.status < 300:
                result = "accepted"
            elif answer.status in REJECTED:
                result = "rejected"
                rejected += pushkeys
            elif answer.status == 429 or answer.status >= 500:
                result = "retry"
                retries.append(answer)
            else:  # to be sent again, it would be refused again, and delay all that follow
                result = "dropped"
            self._counters[result].add()
        if retries:
            # Devices that got it get it twice: the response cannot name single devices.
            raise _retry_later(retries)
        return responses.json(200, {"rejected": rejected})


def read_notification(body: bytes, max_data: int) -> MatrixNotification:
    """:raises PushError: 400/122"""
    try:
        document = orjson.loads(body)
    except orjson.JSONDecodeError:
        raise malformed(f"the body: expected JSON, got {len(body)} bytes that are none") from None
    members = document.get("notification") if isinstance(document, dict) else None
    if not isinstance(members, dict):
        raise malformed(f"notification: expected an object, got {shown(members)}")
    devices = members.pop("devices", None)
    if not isinstance(devices, list) or not 0 < len(devices) <= MAX_DEVICES:
        got = f"{len(devices)}" if isinstance(devices, list) else shown(devices)
        raise malformed(f"devices: expected a list of 1 to {MAX_DEVICES}, got {got}")
    pushkeys = [_pushkey(each) for each in devices]
    is_event = _is_event(members)
    try:
        content = orjson.dumps({"notification": members})
    except orjson.JSONEncodeError:  # it is nested more deeply than can be written
        content = b""
    if not content or len(content) > max_data:
        content = orjson.dumps({"notification": _identifying(members)})
    urgency = "high" if is_event and members.get("prio") != "low" else "low"
    return MatrixNotification(pushkeys, content, urgency, None if is_event else COUNTS_TOPIC)


def _pushkey(device: object) -> str:
    pushkey = device.get("pushkey") if isinstance(device, dict) else None
    if not isinstance(pushkey, str):
        got = shown(device if pushkey is None else pushkey)
        raise malformed(f"devices: expected objects with a pushkey, a text, got {got}")
    return pushkey


def _is_event(members: Mapping[str, object]) -> bool:
    """Whether a notification is about an event, and not only of changed counts, as after a receipt.

    The specification requires `event_id` for an event, and room, type and sender with it; some
    homeservers have `id`, or leave the ID out. For counts they are missing, null or empty.
    """
    given = {name for name in _OF_EVENTS if isinstance(members.get(name), str) and members[name]}
    return not given.isdisjoint(("event_id", "id")) or given >= {"room_id", "type", "sender"}


def _identifying(members: Mapping[str, object]) -> dict[str, object]:
    """What Synapse sends a pusher of the format `event_id_only`."""
    kept: dict[str, object] = {}
    for name in ("event_id", "room_id"):
        if (value := members.get(name)) is not None:
            if not isinstance(value, str) or len(value.encode()) > MAX_ID:
                raise malformed(f"{name}: expected text of at most {MAX_ID} bytes")
            kept[name] = value
    if members.get("prio") in ("high", "low"):
        kept["prio"] = members["prio"]
    counts = members.get("counts")
    if isinstance(counts, dict):
        numbers = {name: counts.get(name) for name in ("unread", "missed_calls")}
        kept["counts"] = {name: each for name, each in numbers.items() if isinstance(each, int)}
    return kept


def _push_path(pushkey: str) -> str:
    """Whichever URL the token stands in, it is the token that counts: a service whose name has
    changed keeps its subscriptions.
    """
    return "/wpush/" + pushkey.partition("/wpush/")[2].partition("?")[0]


def _push_request(request: Request, path: str, notification: MatrixNotification) -> Request:
    """The push for one device. `path`: of its endpoint."""
    # The content is in clear; distributors of UnifiedPush pass on what has this name.
    sent = request.headers
    headers = {name: value for name in _FORWARDED_HEADERS if (value := sent.get(name)) is not None}
    headers |= {"content-encoding": "aes128gcm", "ttl": TTL, "urgency": notification.urgency}
    if notification.topic is not None:
        headers["topic"] = notification.topic
    return Request(
        "POST",
        path,
        "",
        headers,
        request.peer,
        body=notification.content,
        proxies=request.proxies,
        certificate=request.certificate,
    )


def _retry_later(answers: list[Response]) -> PushError:
    """The refusal after which the homeserver repeats the notification."""
    names = [(name.lower(), value) for answer in answers for name, value in answer.headers]
    waits = [int(value) for name, value in names if name == "retry-after"]
    is_busy = any(answer.status >= 500 for answer in answers)
    return PushError(
        Errno.BACK_OFF if is_busy else Errno.RATE_EXCEEDED,
        "A device could not get the notification, please send it again",
        retry_after=max(waits, default=None),
    )


def malformed(detail: str) -> PushError:
    """400/122."""
    return PushError.invalid(Errno.MALFORMED_BODY, detail)
