"""Bugs to plant: each breaks one rule of the service, and the checker has to find it."""

import asyncio
import socket
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any, Final, TypeAlias
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
from autopush.protocol import session
from autopush.protocol.session import Session
from autopush.store import PushStore
from autopush.store.messages import Messages
from autopush.store.users import Users
from autopush.webpush.notification import Notification
from autopush.webpush.stored import StoredPage
from support.memory_engine import MemoryTable

Bug: TypeAlias = list[tuple[Any, str, Any]]
"""Classes or modules, the name of something there, and what takes its place."""


@contextmanager
def planted(bug: Bug) -> Iterator[None]:
    with ExitStack() as stack:
        for owner, name, replacement in bug:
            stack.enter_context(patch.object(owner, name, replacement))
        yield
    while _lost:
        _lost.pop().close()


_lost: list[socket.socket] = []
_store, _move, _ask = Messages.store, Movers._move, Forwarding._ask
_restore, _call_sibling = Session.restore, Nodes._call_sibling


def _does_nothing(*_: object, **__: object) -> None:
    return None


def _returns(result: object) -> Any:
    async def replacement(*_: object, **__: object) -> object:
        return result

    return replacement


async def _store_later(self: Messages, notification: Any) -> None:
    task = asyncio.ensure_future(_store(self, notification))
    task.add_done_callback(lambda task: task.exception())


def _claim(self: StoreRequests, user: Any, uaid: str) -> bool:
    user.uaid = uaid
    self.registry.claim(uaid, user)
    return True


def _adopt_nothing(_: Movers, __: ConnectionNode, sock: socket.socket, ___: bytes) -> Adoption:
    _lost.append(sock)
    return Adoption.TAKEN


async def _stay(connection: UserAgentConnection) -> None:
    connection.stay()


async def _move_and_stay(*what: Any) -> Move:
    await _move(*what)
    return Move.LATER


async def _answer_for_the_silent(self: Forwarding, owner: int, request: Any) -> Response:
    try:
        return await _ask(self, owner, request)
    except SiblingError:
        return Response(201, b'{"message-id":"%d"}' % id(request))


def _restore_without_unacked(self: Session, *state: Any) -> None:
    _restore(self, *state)
    self.unacked = {}


def _take_over_late(self: Sibling, connection: Any, sockets: list[socket.socket]) -> None:
    self._answer(connection.number, self._adopt(sockets.pop(), connection.state))


async def _call_directly(self: Nodes, *call: Any) -> Outcome:
    self.is_relayed = False
    return await _call_sibling(self, *call)


async def _rest(_: Presence) -> None:
    await asyncio.get_running_loop().create_future()


PLANTED: Final[Mapping[str, Bug]] = {
    # What is unacked at the end of a connection is not saved.
    "forgets-unacked": [(BackgroundWrites, "save_undelivered", _does_nothing)],
    # 201 before the message is in the store.
    "answers-before-the-commit": [(Messages, "store", _store_later)],
    # An ack deletes nothing.
    "keeps-acked": [(Messages, "delete_all", _returns(None))],
    # The older connection of a user agent is not closed, here or at another worker.
    "keeps-both-connections": [
        (StoreRequests, "_end_duplicates", _returns(None)),
        (StoreRequests, "_claim", _claim),
    ],
    # A closed connection stays in the registry.
    "stays-registered": [(Registry, "release", _does_nothing)],
    # A user agent that connects is not sent what is stored.
    "reads-nothing": [(StoreRequests, "_read", _returns(StoredPage([], None, None, 0)))],
    # A connection that moves arrives without its hello.
    "loses-the-hello": [(Movers, "adopt", _adopt_nothing)],
    # A connection that has moved is also served where it was.
    "serves-what-it-moved": [
        (UserAgentConnection, "leave", _stay),
        (Movers, "_move", _move_and_stay),
    ],
    # A call that could not be made counts as delivered.
    "believes-itself": [(Nodes, "_call", _returns(Outcome.DONE))],
    # A request for a worker that stands still is answered 201.
    "answers-for-the-silent": [(Forwarding, "_ask", _answer_for_the_silent)],
    # When a sibling's queue is full or it was restarted, an answer is lost.
    "leaves-calls-waiting": [(Sibling, "_fail", _does_nothing)],
    # A channel that a user agent has left stays subscribed.
    "keeps-channels": [(Messages, "remove_channel", _returns(None))],
    # A message that its sender deletes stays stored.
    "keeps-deleted": [(PushStore, "remove", _returns(None))],
    # A worker that stood still keeps connections that were replaced meanwhile.
    "forgets-duplicates": [(PendingCalls, "add", _does_nothing)],
    # Expired messages are read from the store, and sent.
    "believes-expired": [
        (MemoryTable, "_live", lambda self, key: self.items.get(key)),
        (Notification, "expired", lambda *_: False),
    ],
    # A user agent is sent messages of every urgency.
    "filters-nothing": [(session, "is_below", lambda *_: False)],
    # A filter is answered and not recorded.
    "forgets-filters": [(Users, "set_min_urgency", _returns(True))],
    # A connection that moves to the next version arrives without its unacked messages.
    "hands-over-without-unacked": [(Session, "restore", _restore_without_unacked)],
    # A user agent that is not here counts as absent, though another version has it.
    "asks-no-other-version": [(OtherVersions, "ask", _returns(Outcome.ABSENT))],
    # A connection is taken over also after its sender has gone on with it.
    "takes-over-late": [(Sibling, "_take_over", _take_over_late)],
    # A connection that could not be handed over is not read any more.
    "leaves-paused": [(UserAgentConnection, "stay", _does_nothing)],
    # A worker that ends calls siblings that have ended, not the next version.
    "calls-siblings-that-end": [(Nodes, "_call_sibling", _call_directly)],
    # A version ends while an older one needs it to reach the next.
    "ends-before-the-older": [(Sibling, "wait_until_ended", _returns(None))],
    # Who is connected and not recorded is not looked for at its owner.
    "looks-only-on-record": [(Placement, "node_of", lambda _, record: record.node_id)],
}
PLANTED_IN_CLUSTERS: Final[Mapping[str, Bug]] = {
    # A node believes that records of its users are true.
    "checks-no-records": [(Presence, "_check", _returns(None))],
    # That a node could not be notified is known only to the caller.
    "marks-nothing": [(Users, "note_unread", _returns(None))],
    # What a failover has lost is taken for deleted.
    "restores-nothing": [(PushStore, "is_restoring", False)],
    # After a failover records name nodes that users have left.
    "restores-no-connections": [
        (Presence, "_check_all", _returns(None)),
        (Presence, "_sweep", _rest),
    ],
}
