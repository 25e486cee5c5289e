"""Connections from another process: which are taken over, and which stay where they are."""

import asyncio
import socket
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from autopush.delivery.moving import FORMAT, HELLOS_AT_ONCE, Move, Moved, Movers
from autopush.delivery.user_agent import MovedUser, UserAgentConnection
from autopush.net.siblings import SUCCESSOR, Adoption, Sibling, Siblings
from autopush.service.hand_over import AT_ONCE, HAND_OVER_TIMEOUT, HandOver
from autopush.store.messages import row_of
from autopush.webpush.identifiers import hash_secret
from support.connection_harness import Harness, UserAgent
from support.simulation.virtual_loop import VirtualLoop


class Sent:
    """Sends what one node has to another."""

    def __init__(self, there: Harness) -> None:
        self.there = there
        self.movers = Movers(Siblings())
        self.client, self.sock = socket.socketpair()
        self.sock.setblocking(False)

    def adopt(self, moved: Moved) -> Adoption:
        return self.movers.adopt(self.there.node, self.sock, msgspec.msgpack.encode(moved))


async def exported(harness: Harness, agent: UserAgent) -> Moved:
    await harness.run_until_idle()
    user = agent.connection._export()
    assert user is not None
    return Moved(FORMAT, "agent/1", "host", "", "192.0.2.1", b"", b"", user)


def changed(moved: Moved, **fields: object) -> Moved:
    assert moved.user is not None
    names = set(MovedUser.__struct_fields__)
    of_user = {name: value for name, value in fields.items() if name in names}
    others = {name: value for name, value in fields.items() if name not in names}
    replace = msgspec.structs.replace
    return replace(moved, user=replace(moved.user, **of_user), **others)


@pytest.mark.parametrize(
    "change",
    [{"format": FORMAT + 1}, {"node_id": "http://one:8081/i/another"}, {"table": "message_1999_1"}],
    ids=str,
)
async def test_what_is_not_known_here_stays_where_it_is(change: dict[str, object]) -> None:
    here, there = await Harness.open(), await Harness.open()
    moved = await exported(here, await here.subscribed())
    sent = Sent(there)
    assert sent.adopt(changed(moved, **change)) is Adoption.REFUSED
    assert sent.sock.fileno() == -1, "the descriptor here is closed"
    assert not there.registry.sockets
    assert moved.user is not None
    assert there.registry.find(moved.user.session.uaid) is None
    sent.client.close()


async def test_a_state_that_cannot_be_read_is_refused(end_logs: Callable[[], str]) -> None:
    there = await Harness.open()
    sent = Sent(there)
    assert sent.movers.adopt(there.node, sent.sock, b"\x91\xc1") is Adoption.REFUSED
    assert "Connections of another version are refused" in end_logs()
    sent.client.close()


async def test_a_user_agent_that_has_connected_here_again_keeps_its_new_connection() -> None:
    here, there = await Harness.open(), await Harness.open()
    moved = await exported(here, await here.subscribed())
    newer = await there.subscribed()
    assert moved.user is not None
    session = msgspec.structs.replace(moved.user.session, uaid=newer.uaid)
    sent = Sent(there)
    assert sent.adopt(changed(moved, session=session)) is Adoption.REPLACED
    assert there.registry.find(newer.uaid) is newer.connection
    sent.client.close()


async def test_a_connection_with_a_newer_one_there_is_closed_here(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def begin_leaving(_: UserAgentConnection, *, with_hello: bool) -> object:
        return SimpleNamespace(user=None, descriptor=-1, unread=b"")

    async def hand_over(_: int, __: bytes) -> Adoption:
        return Adoption.REPLACED

    monkeypatch.setattr(UserAgentConnection, "can_move", True)
    monkeypatch.setattr(UserAgentConnection, "begin_leaving", begin_leaving)
    harness = await Harness.open()
    agent = await harness.subscribed()
    movers = Movers(Siblings({1: cast(Sibling, SimpleNamespace(hand_over=hand_over))}))
    assert await movers.move(1, agent.connection) is Move.DONE
    assert agent.received() == [("close", 1000, "replaced")]


async def test_a_user_that_arrives_is_found_before_its_socket_is_open() -> None:
    here, there = await Harness.open(), await Harness.open()
    moved = await exported(here, await here.subscribed())
    sent = Sent(there)
    assert sent.adopt(moved) is Adoption.TAKEN
    assert moved.user is not None
    user = there.registry.find(moved.user.session.uaid)
    assert user is not None
    assert not user.deliver(here.message(user.uaid or ""), None), (
        "it is stored, and read on arrival"
    )
    user.disconnect(1000, "replaced")  # by a hello that comes just then
    assert there.registry.find(moved.user.session.uaid) is None
    sent.client.close()
    for arriving in sent.movers._arriving.copy():
        await arriving


async def test_the_secret_of_a_new_user_is_recorded_by_the_process_that_has_it() -> None:
    here, there = await Harness.open(), await Harness.open()
    agent = await here.hello(None, secret=True)
    secret = agent.reply()["secret"]
    sent = Sent(there)
    moved = await exported(here, agent)
    assert secret.encode() not in msgspec.msgpack.encode(moved)
    assert sent.adopt(moved) is Adoption.TAKEN
    user = there.registry.find(agent.uaid)
    assert user is not None
    assert (user.is_recorded, user.secret_hash) == (False, hash_secret(secret))
    user.disconnect(1000)
    sent.client.close()
    for arriving in sent.movers._arriving.copy():
        await arriving


async def test_a_connection_whose_ack_is_not_deleted_yet_waits() -> None:
    harness = await Harness.open()
    agent = await harness.subscribed()
    await harness.run_until_idle()
    connection = agent.connection
    rows = [row_of(await harness.store_message(agent.uaid))]
    harness.registry.acked.add(agent.uaid, rows)
    assert connection._export() is None
    harness.registry.acked.on_deleted(agent.uaid, rows)
    assert connection._export() is not None


def with_successor(*, is_foreign: bool) -> Siblings:
    return Siblings({SUCCESSOR: cast(Sibling, SimpleNamespace(is_foreign=is_foreign))})


def hand_over(siblings: Siblings) -> HandOver:
    unused = cast(Any, None)
    return HandOver(siblings, unused, unused, unused, unused)


async def test_connections_are_not_sent_to_a_version_with_another_format(
    end_logs: Callable[[], str],
) -> None:
    siblings = with_successor(is_foreign=True)
    connection = cast(UserAgentConnection, object())
    async with asyncio.timeout(HAND_OVER_TIMEOUT / 2):
        await hand_over(siblings)._move_connections(Movers(siblings), {connection: None})
    assert "The next version takes over no connections" in end_logs()


def test_a_busy_connection_is_tried_again_however_long_the_first_attempts_take(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    left = [cast(UserAgentConnection, object()) for _ in range(2 * AT_ONCE)]
    connections, busy = dict.fromkeys(left), left[:1]

    async def move(_: Movers, __: int, connection: UserAgentConnection) -> Move:
        await asyncio.sleep(HAND_OVER_TIMEOUT * 0.6)
        if connection in busy:
            busy.remove(connection)
            return Move.LATER
        del connections[connection]
        return Move.DONE

    monkeypatch.setattr(Movers, "_move", move)
    loop, siblings = VirtualLoop(), with_successor(is_foreign=False)
    handing_over = hand_over(siblings)._move_connections(Movers(siblings), connections)
    loop.run_until_complete(handing_over)
    loop.close()
    assert not connections


class MovesUnderWay:
    """Moves of connections that have only an address, and whether they are still there."""

    class Connection:
        def __init__(self, address: str) -> None:
            self.address_key, self.is_connected = address, True

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.begun: list[object] = []
        self.stayed = 0
        self._end = asyncio.Semaphore(0)
        self.movers = Movers(Siblings())

        async def move(_: Movers, __: int, connection: object, ___: bytes) -> Move:
            self.begun.append(connection)
            await self._end.acquire()
            return Move.DONE

        monkeypatch.setattr(Movers, "_move", move)

    async def say_hello(self, owner: int, address: str, count: int = 1) -> list[Connection]:
        connections = [self.Connection(address) for _ in range(count)]
        for each in connections:
            self.movers.move_with_hello(owner, cast(UserAgentConnection, each), b"", self._stay)
        await self.end(0)
        return connections

    def _stay(self) -> None:
        self.stayed += 1

    async def end(self, count: int) -> None:
        for _ in range(count):
            self._end.release()
        for _ in range(5):
            await asyncio.sleep(0)


async def test_only_so_many_connections_are_on_their_way_to_one_worker_and_addresses_take_turns(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    moves = MovesUnderWay(monkeypatch)
    await moves.say_hello(1, "192.0.2.1", HELLOS_AT_ONCE + 10)
    assert len(moves.begun) == HELLOS_AT_ONCE
    (other_owner,) = await moves.say_hello(2, "192.0.2.1")
    assert moves.begun[-1] is other_owner
    (other_address,) = await moves.say_hello(1, "192.0.2.2")
    assert moves.begun[-1] is other_owner
    await moves.end(2)
    assert other_address in moves.begun
    await moves.end(2 * HELLOS_AT_ONCE)
    assert len(moves.begun) == HELLOS_AT_ONCE + 12
    assert moves.stayed == 0


async def test_who_leaves_while_it_waits_is_not_moved_and_nobody_is_when_the_worker_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    moves = MovesUnderWay(monkeypatch)
    await moves.say_hello(1, "192.0.2.1", HELLOS_AT_ONCE)
    left, waiting, late = await moves.say_hello(1, "192.0.2.1", 3)
    left.is_connected = False
    await moves.end(1)
    assert moves.begun[-1] is waiting
    assert left not in moves.begun
    finishing = asyncio.ensure_future(moves.movers.finish())
    await moves.end(HELLOS_AT_ONCE)
    await finishing
    assert late not in moves.begun
