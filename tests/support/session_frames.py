"""Frames and messages for tests of a session without a connection."""

import json
from collections.abc import Sequence

from autopush.delivery.session_log import Client
from autopush.protocol.broadcasts import NO_BROADCASTS, Broadcasts
from autopush.protocol.effects import Effect, Identify, Send, StoreRequest
from autopush.protocol.session import Session, SessionSettings
from autopush.protocol.session_state import SessionMetrics
from autopush.telemetry.metrics import Metrics
from autopush.telemetry.user_agent_names import UserAgentNames
from autopush.webpush.notification import Notification
from autopush.webpush.stored import Row, StoredMessage
from support.recorded import new_metrics

UAID = "0123456789abcdef0123456789abcdef"
CHANNEL = "11111111-2222-3333-4444-555555555555"
OTHER = "99999999-2222-3333-4444-555555555555"
NOW = 1_800_000_000.0
MICROSECONDS = 1_000_000


def new_session(
    rules: SessionSettings | None = None,
    connected_at: int = 1,
    metrics: Metrics | None = None,
    broadcasts: Broadcasts = NO_BROADCASTS,
) -> Session:
    """A session whose socket is just open; `metrics`: what it records with."""
    recorder = SessionMetrics(metrics or new_metrics())
    kind = Client(UserAgentNames(), "", "", "").kind
    return Session(rules or SessionSettings(), connected_at, recorder, kind, broadcasts)


def frame(**members: object) -> bytes:
    return json.dumps(members).encode()


def sent(effects: Sequence[Effect]) -> list[dict[str, object]]:
    """The messages to the user agent among these effects."""
    return [json.loads(effect.payload) for effect in effects if isinstance(effect, Send)]


def request_in(effects: Sequence[Effect]) -> StoreRequest:
    """The request that is the only effect."""
    (request,) = effects
    assert isinstance(request, StoreRequest)
    return request


def requested(session: Session, kind: str, **members: object) -> StoreRequest:
    """The request that a message of that type leads to, and nothing else."""
    return request_in(session.receive(frame(messageType=kind, **members), NOW))


def identify(session: Session, **hello: object) -> Identify:
    """Say hello, for Web Push as UAID if `hello` names nothing else; the request it leads to."""
    members = {"messageType": "hello", "use_webpush": True, "uaid": UAID} | hello
    request = request_in(session.receive(frame(**members), NOW))
    assert isinstance(request, Identify)
    return request


def message(
    number: int,
    *,
    channel: str = CHANNEL,
    ttl: int = 60,
    topic: str | None = None,
    urgency: str = "normal",
) -> Notification:
    return Notification(
        uaid=UAID,
        channel_id=channel,
        version=f"version-{number}",
        ttl=ttl,
        timestamp=int(NOW),
        topic=topic,
        urgency=urgency,
        sort_time=int(NOW) * MICROSECONDS + number,
    )


def stored(
    number: int, *, channel: str = CHANNEL, ttl: int = 60, urgency: str = "normal"
) -> StoredMessage:
    notification = message(number, channel=channel, ttl=ttl, urgency=urgency)
    return StoredMessage(Row(notification.sort_key, None), notification)


def ack(*numbers: int, channel: str = CHANNEL) -> bytes:
    updates = [{"channelID": channel, "version": f"version-{number}"} for number in numbers]
    return frame(messageType="ack", updates=updates)
