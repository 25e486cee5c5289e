"""Answers the calls of nodes about the user agents of this worker."""

from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import Any, Final

from autopush.delivery.calls import (
    CheckStorage,
    EndDuplicate,
    FindConnection,
    NodeCall,
    Outcome,
    Push,
)
from autopush.delivery.connected import ConnectedUser, Registry
from autopush.delivery.versions import OtherVersions
from autopush.protocol.effects import NORMAL_CLOSURE, REPLACED
from autopush.store.messages import row_of
from autopush.store.users import SIMPLEPUSH
from autopush.telemetry import logs
from autopush.telemetry.logs import RepeatLimiter
from autopush.webpush.notification import Notification, VersionUpdate
from autopush.webpush.tokens import KeyRing, parse_message_id
from keytables import KeytablesError

ACKS_TIMEOUT: Final = 1.5
"""Seconds before the caller gets BUSY. After three it would take this node for stopped."""
WARNINGS_INTERVAL: Final = 60.0
"""Seconds between log lines about message ids that cannot be read."""

Answer = Outcome | Coroutine[Any, Any, Outcome]
"""Synchronous where possible, so that the answers to all calls of one read go in one write."""

_log = logs.get(__name__)


@dataclass(eq=False)
class Answering:
    """`others`: versions of this worker that may have a user agent which this one has not."""

    registry: Registry
    ring: KeyRing
    others: OtherVersions = field(default_factory=OtherVersions)

    def __post_init__(self) -> None:
        self._lines = RepeatLimiter(1, WARNINGS_INTERVAL)

    def __call__(self, call: NodeCall) -> Answer:
        """:raises ValueError: also by the coroutine: the message of a push is none"""
        return self._answer_for_all(call) if self.others.exist else self._answer(call)

    async def _answer_for_all(self, call: NodeCall) -> Outcome:
        """For a user agent that is not here, the other versions of this worker are asked first."""
        if self.registry.find(call.uaid) is None:
            outcome = await self.others.ask(call)
            if outcome is Outcome.DONE and isinstance(call, EndDuplicate):
                # The version that has ended it knows its own acks only.
                own = await self._end_duplicate(call)
                return outcome if own is Outcome.ABSENT else own
            if outcome is not Outcome.ABSENT:
                return outcome
        answer = self._answer(call)
        return answer if isinstance(answer, Outcome) else await answer

    def _answer(self, call: NodeCall) -> Answer:
        if isinstance(call, EndDuplicate):
            return self._end_duplicate(call)
        user = self.registry.find(call.uaid)
        if user is None:
            return self._absent(call)
        if isinstance(call, Push):
            return self._push(user, call)
        if isinstance(call, CheckStorage):
            return Outcome.DONE if user.check_storage(call.urgency) else Outcome.STORED
        return Outcome.DONE

    def _absent(self, call: NodeCall) -> Outcome:
        """BUSY while acks are unsaved: ABSENT would remove this node from the router record."""
        is_finishing = self.registry.acked.has_undeleted(call.uaid)
        return (
            Outcome.BUSY
            if is_finishing and not isinstance(call, FindConnection)
            else Outcome.ABSENT
        )

    def _push(self, user: ConnectedUser, call: Push) -> Answer:
        notification = call.notification()
        if isinstance(notification, VersionUpdate) is not (user.messages.router_type == SIMPLEPUSH):
            return Outcome.BUSY
        if call.only_subscribed and not user.is_subscribed(notification.channel_id):
            return Outcome.BUSY
        is_row_known = self._find_row(notification)
        if not notification.stored:
            return _delivered(user.deliver(notification, None))
        if is_row_known:
            return self._push_stored(user, notification)
        return self._read_instead(user)

    def _find_row(self, notification: Notification) -> bool:
        """Set the sort time, which older nodes do not send. False: this node lacks the id's key."""
        if notification.topic is not None or notification.sort_time is not None:
            return True
        try:
            notification.sort_time = parse_message_id(self.ring, notification.version).sort_time
        except ValueError:
            return False
        return True

    def _read_instead(self, user: ConnectedUser) -> Outcome:
        """Have storage read: a message whose row is unknown cannot be checked against acks."""
        count = self._lines.admit("unreadable id")
        if count is not None:
            _log.warning(
                "The ID of a stored message cannot be read, so storage is read instead: the node "
                "that sent it uses a crypto_key that this one does not have",
                **count,
            )
        user.check_storage()
        return Outcome.BUSY

    async def _push_stored(self, user: ConnectedUser, notification: Notification) -> Outcome:
        try:
            return _delivered(await user.deliver_from_peer(notification, row_of(notification)))
        except KeytablesError:
            return Outcome.BUSY  # the other node will have the store checked

    async def _end_duplicate(self, call: EndDuplicate) -> Outcome:
        acked, user = self.registry.acked, self.registry.find(call.uaid)
        is_duplicate = user is not None and call.ends(user.connected_at)
        if user is not None and is_duplicate:
            user.disconnect(NORMAL_CLOSURE, REPLACED)
        # The calling node reads storage next and must not find what was acked here.
        await acked.all_deleted(call.uaid, ACKS_TIMEOUT)
        if acked.has_undeleted(call.uaid):
            return Outcome.BUSY
        return Outcome.DONE if is_duplicate else Outcome.ABSENT


def _delivered(delivered: bool) -> Outcome:
    return Outcome.DONE if delivered else Outcome.BUSY
