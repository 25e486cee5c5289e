"""Bugs to plant: each breaks one rule of the service, and the checker has to find it."""

import asyncio
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final
from unittest.mock import patch

from autopush.api.forwarding import Forwarding
from autopush.delivery.background import BackgroundWrites
from autopush.delivery.calls import Outcome
from autopush.delivery.connected import Registry
from autopush.delivery.moving import Move, Movers
from autopush.delivery.node import ConnectionNode
from autopush.delivery.peers import Nodes, PendingCalls
from autopush.delivery.placement import Placement
from autopush.delivery.presence import Presence
from autopush.delivery.requests import StoreRequests
from autopush.delivery.user_agent import UserAgentConnection
from autopush.delivery.versions import OtherVersions
from autopush.net.http_messages import Response
from autopush.net.siblings import Adoption, Sibling, SiblingError
from autopush.protocol.session import Session
from autopush.store import PushStore
from autopush.store.messages import Messages
from autopush.store.users import Users
from autopush.webpush.notification import Notification
from autopush.webpush.stored import StoredPage
from support.memory_engine import MemoryTable


async def _nothing(*_: object, **__: object) -> None:
    return None


@contextmanager
def _forgets_unacked() -> Iterator[None]:
    """What is unacked at the end of a connection is not saved."""
    with patch.object(BackgroundWrites, "save_undelivered", lambda *_, **__: None):
        yield


@contextmanager
def _answers_before_the_commit() -> Iterator[None]:
    """201 before the message is in the store."""

    async def store(self: Messages, notification: Any) -> None:
        asyncio.ensure_future(original(self, notification)).add_done_callback(
            lambda task: task.exception()
        )

    original = Messages.store
    with patch.object(Messages, "store", store):
        yield


@contextmanager
def _keeps_acked() -> Iterator[None]:
    """An ack deletes nothing."""
    with patch.object(Messages, "delete_all", _nothing):
        yield


@contextmanager
def _keeps_both_connections() -> Iterator[None]:
    """The older connection of a user agent is not closed, here or at another worker."""

    async def end_duplicates(*_: object) -> None:
        return None

    def claim(self: StoreRequests, user: Any, uaid: str) -> bool:
        user.uaid = uaid
        self.registry.claim(uaid, user)
        return True

    with (
        patch.object(StoreRequests, "_end_duplicates", end_duplicates),
        patch.object(StoreRequests, "_claim", claim),
    ):
        yield


@contextmanager
def _stays_registered() -> Iterator[None]:
    """A closed connection stays in the registry."""
    with patch.object(Registry, "release", lambda *_: None):
        yield


@contextmanager
def _reads_nothing() -> Iterator[None]:
    """A user agent that connects is not sent what is stored."""

    async def read(*_: object) -> StoredPage:
        return StoredPage([], None, None, 0)

    with patch.object(StoreRequests, "_read", read):
        yield


@contextmanager
def _loses_the_hello() -> Iterator[None]:
    """A connection that moves arrives without its hello."""

    lost = []

    def adopt(_: Movers, __: ConnectionNode, sock: socket.socket, ___: bytes) -> Adoption:
        lost.append(sock)
        return Adoption.TAKEN

    with patch.object(Movers, "adopt", adopt):
        yield
    for sock in lost:
        sock.close()


@contextmanager
def _closes_what_it_moved() -> Iterator[None]:
    """A connection that has moved is also served where it was."""

    move = Movers._move

    async def leave(connection: UserAgentConnection) -> None:
        connection.stay()

    async def move_and_stay(*what: Any) -> Move:
        await move(*what)
        return Move.LATER

    with (
        patch.object(UserAgentConnection, "leave", leave),
        patch.object(Movers, "_move", move_and_stay),
    ):
        yield


@contextmanager
def _believes_itself() -> Iterator[None]:
    """A call that could not be made counts as delivered."""

    async def call(*_: object, **__: object) -> Outcome:
        return Outcome.DONE

    with patch.object(Nodes, "_call", call):
        yield


@contextmanager
def _answers_for_the_silent() -> Iterator[None]:
    """A request for a worker that stands still is answered 201."""

    async def ask(self: Forwarding, owner: int, request: Any) -> Response:
        try:
            return await original(self, owner, request)
        except SiblingError:
            return Response(201, b'{"message-id":"%d"}' % id(request))

    original = Forwarding._ask
    with patch.object(Forwarding, "_ask", ask):
        yield


@contextmanager
def _drops_frames() -> Iterator[None]:
    """When a sibling's queue is full or it was restarted, an answer is lost."""
    with patch.object(Sibling, "_fail", lambda *_: None):
        yield


@contextmanager
def _keeps_channels() -> Iterator[None]:
    """A channel that a user agent has left stays subscribed."""
    with patch.object(Messages, "remove_channel", _nothing):
        yield


@contextmanager
def _keeps_deleted() -> Iterator[None]:
    """A message that its sender deletes stays stored."""
    with patch.object(PushStore, "remove", _nothing):
        yield


@contextmanager
def _forgets_duplicates() -> Iterator[None]:
    """A worker that stood still keeps connections that were replaced meanwhile."""
    with patch.object(PendingCalls, "add", lambda *_: None):
        yield


@contextmanager
def _filters_nothing() -> Iterator[None]:
    """A user agent is sent messages of every urgency."""
    with patch("autopush.protocol.session.is_below", lambda *_: False):
        yield


@contextmanager
def _forgets_filters() -> Iterator[None]:
    """A filter is answered and not recorded."""

    async def nothing(*_: object) -> bool:
        return True

    with patch.object(Users, "set_min_urgency", nothing):
        yield


@contextmanager
def _believes_expired() -> Iterator[None]:
    """Expired messages are read from the store, and sent."""

    with (
        patch.object(MemoryTable, "_live", lambda self, key: self.items.get(key)),
        patch.object(Notification, "expired", lambda *_: False),
    ):
        yield


@contextmanager
def _hands_over_without_unacked() -> Iterator[None]:
    """A connection that moves to the next version arrives without its unacked messages."""

    def restore(self: Session, *state: Any) -> None:
        original(self, *state)
        self.unacked = {}

    original = Session.restore
    with patch.object(Session, "restore", restore):
        yield


@contextmanager
def _asks_no_other_version() -> Iterator[None]:
    """A user agent that is not here counts as absent, though another version has it."""

    async def ask(*_: object) -> Outcome:
        return Outcome.ABSENT

    with patch.object(OtherVersions, "ask", ask):
        yield


@contextmanager
def _takes_over_late() -> Iterator[None]:
    """A connection is taken over also after its sender has gone on with it."""

    def take_over(self: Sibling, connection: Any, sockets: list[socket.socket]) -> None:
        self._answer(connection.number, self._adopt(sockets.pop(), connection.state))

    with patch.object(Sibling, "_take_over", take_over):
        yield


@contextmanager
def _leaves_paused() -> Iterator[None]:
    """A connection that could not be handed over is not read any more."""
    with patch.object(UserAgentConnection, "stay", lambda *_: None):
        yield


@contextmanager
def _calls_siblings_that_end() -> Iterator[None]:
    """A worker that ends calls siblings that have ended, not the next version."""

    async def call_directly(self: Nodes, *call: Any) -> Outcome:
        self.is_relayed = False
        return await original(self, *call)

    original = Nodes._call_sibling
    with patch.object(Nodes, "_call_sibling", call_directly):
        yield


@contextmanager
def _ends_before_the_older() -> Iterator[None]:
    """A version ends while an older one needs it to reach the next."""
    with patch.object(Sibling, "wait_until_ended", _nothing):
        yield


@contextmanager
def _looks_only_on_record() -> Iterator[None]:
    """Who is connected and not recorded is not looked for at its owner."""
    with patch.object(Placement, "node_of", lambda _, record: record.node_id):
        yield


@contextmanager
def _checks_no_records() -> Iterator[None]:
    """A node believes that records of its users are true."""
    with patch.object(Presence, "_check", _nothing):
        yield


@contextmanager
def _marks_nothing() -> Iterator[None]:
    """That a node could not be notified is known only to the caller."""
    with patch.object(Users, "note_unread", _nothing):
        yield


@contextmanager
def _restores_nothing() -> Iterator[None]:
    """What a failover has lost is taken for deleted."""
    with patch.object(PushStore, "is_restoring", False):
        yield


@contextmanager
def _restores_no_connections() -> Iterator[None]:
    """After a failover records name nodes that users have left."""

    async def check_all(*_: object) -> None:
        return None

    with patch.object(Presence, "_check_all", check_all), patch.object(Presence, "_sweep", _rests):
        yield


async def _rests(_: Presence) -> None:
    await asyncio.get_running_loop().create_future()


PLANTED: Final[Mapping[str, Callable[[], Any]]] = {
    "forgets-unacked": _forgets_unacked,
    "answers-before-the-commit": _answers_before_the_commit,
    "keeps-acked": _keeps_acked,
    "keeps-both-connections": _keeps_both_connections,
    "stays-registered": _stays_registered,
    "reads-nothing": _reads_nothing,
    "loses-the-hello": _loses_the_hello,
    "serves-what-it-moved": _closes_what_it_moved,
    "believes-itself": _believes_itself,
    "answers-for-the-silent": _answers_for_the_silent,
    "leaves-calls-waiting": _drops_frames,
    "keeps-channels": _keeps_channels,
    "keeps-deleted": _keeps_deleted,
    "forgets-duplicates": _forgets_duplicates,
    "believes-expired": _believes_expired,
    "filters-nothing": _filters_nothing,
    "forgets-filters": _forgets_filters,
    "hands-over-without-unacked": _hands_over_without_unacked,
    "asks-no-other-version": _asks_no_other_version,
    "takes-over-late": _takes_over_late,
    "leaves-paused": _leaves_paused,
    "calls-siblings-that-end": _calls_siblings_that_end,
    "ends-before-the-older": _ends_before_the_older,
    "looks-only-on-record": _looks_only_on_record,
}
PLANTED_IN_CLUSTERS: Final[Mapping[str, Callable[[], Any]]] = {
    "checks-no-records": _checks_no_records,
    "marks-nothing": _marks_nothing,
    "restores-nothing": _restores_nothing,
    "restores-no-connections": _restores_no_connections,
}
