"""Calls between nodes as HTTP: requests of the original's node API, and what their answers mean.

    PUT /push/UAID                       Push
    PUT /push/UAID/subscribed            Push, if subscribed
    PUT /notif/UAID                      CheckStorage; the body is the urgency
    GET /notif/UAID                      FindConnection
    DELETE /notif/UAID/CONNECTED_AT      EndDuplicate

A node of an earlier version, or of the original, refuses a path that it does not know, but ignores
a body, a member or a header: what must not be ignored stands in the path.
"""

from typing import Final, NamedTuple

from autopush.delivery.calls import (
    CheckStorage,
    EndDuplicate,
    FindConnection,
    NodeCall,
    Outcome,
    Push,
)
from autopush.webpush.identifiers import canonical_uaid
from autopush.webpush.urgency import HIGHEST, known_urgency

NOT_CONNECTED: Final = "Client not connected."


class HttpCall(NamedTuple):
    method: str
    path: str
    body: bytes = b""


def to_http(call: NodeCall) -> HttpCall:
    match call:
        case Push(only_subscribed=True):
            return HttpCall("PUT", f"/push/{call.uaid}/subscribed", call.message)
        case Push():
            return HttpCall("PUT", f"/push/{call.uaid}", call.message)
        case CheckStorage():
            return HttpCall("PUT", f"/notif/{call.uaid}", call.urgency.encode())
        case FindConnection():
            return HttpCall("GET", f"/notif/{call.uaid}")
        case EndDuplicate():
            return HttpCall("DELETE", f"/notif/{call.uaid}/{call.connected_at}")


def from_http(method: str, path: str, body: bytes) -> NodeCall:
    """The UAID may be dashed or not; what is none is that of no user.

    :raises ValueError: there is no such call
    """
    match method, *path.strip("/").split("/"):
        case ("PUT", "push", uaid, *rest) if rest in ([], ["subscribed"]):
            return Push(canonical_uaid(uaid) or "", body, bool(rest))
        case "PUT", "notif", uaid:
            # Empty from an older version, for which storage is read in any case.
            urgency = known_urgency(body.decode("latin-1")) or HIGHEST
            return CheckStorage(canonical_uaid(uaid) or "", urgency)
        case "GET", "notif", uaid:
            return FindConnection(canonical_uaid(uaid) or "")
        case "DELETE", "notif", uaid, time:
            connected_at = int(time) if time.isascii() and time.isdigit() else -1
            return EndDuplicate(canonical_uaid(uaid) or "", connected_at)
    raise ValueError("No such call.")


def outcome_of(status: int) -> Outcome:
    if status == 200:
        return Outcome.DONE
    if status == 202:
        return Outcome.STORED
    if status == 404:
        return Outcome.ABSENT
    return Outcome.SILENT if status >= 500 and status != 503 else Outcome.BUSY


def answer_to(call: NodeCall, outcome: Outcome) -> tuple[int, str]:
    """Status and text of the answer."""
    if isinstance(call, EndDuplicate) and outcome in _ENDED:
        return 200, _ENDED[outcome]
    if outcome is Outcome.DONE:
        return 200, _DONE[type(call)]
    return _ANSWERS[outcome]


_DONE: Final[dict[type, str]] = {
    Push: "Client accepted for delivery",
    CheckStorage: "Notification check started",
    FindConnection: "Client connected.",
}
_ENDED: Final = {Outcome.DONE: "Terminated duplicate", Outcome.ABSENT: ""}
_ANSWERS: Final = {
    Outcome.STORED: (202, "Flagged for Notification check"),
    Outcome.BUSY: (503, "Client busy."),
    Outcome.ABSENT: (404, NOT_CONNECTED),
    Outcome.SILENT: (500, "Another version of this node does not answer."),
}
