"""Calls from node to node: the own one by a function call, others over a link to a small server."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine

import pytest

from autopush.net.eager import begin
from autopush.net.http import Request, Response
from autopush.net.timers import TimerWheel
from autopush.protocol.actions import Row
from autopush.routing import nodes as nodes_module
from autopush.routing import owed as owed_module
from autopush.routing.local import ConnectedUser
from autopush.routing.nodes import NodeAnswer, Nodes
from autopush.store.messages import Messages
from autopush.webpush.notification import Notification
from support.http_shell import serving
from support.sockets import deaf_port, full_port, unused_port

UAID = "0123456789abcdef0123456789abcdef"
CHANNEL = "11111111-2222-3333-4444-555555555555"
OWN = "http://127.0.0.1:1"
ROW = Row("02:1:x", None)


class FakeUser(ConnectedUser):
    def __init__(self) -> None:
        self.accepts = True
        self.free = True
        self.delivered: list[tuple[Notification, Row | None]] = []
        self.checks = 0

    @property
    def connected_at(self) -> int:
        return 5

    @property
    def messages(self) -> Messages:
        raise NotImplementedError

    @property
    def here(self) -> bool:
        return True

    def is_subscribed(self, channel_id: str) -> bool:
        return True

    def deliver(self, notification: Notification, row: Row | None) -> bool:
        if self.accepts:
            self.delivered.append((notification, row))
        return self.accepts

    async def hand_over(self, notification: Notification, row: Row | None) -> bool:
        return self.deliver(notification, row)

    def check_storage(self) -> bool:
        self.checks += 1
        return self.free

    def leave(self, code: int, reason: str = "") -> None:
        raise NotImplementedError


class Local:
    def __init__(self) -> None:
        self.users: dict[str, FakeUser] = {}

    def find(self, uaid: str) -> FakeUser | None:
        return self.users.get(uaid)


@pytest.fixture
def local() -> Local:
    return Local()


@pytest.fixture
async def nodes(local: Local) -> AsyncIterator[Nodes]:
    wheel = TimerWheel(asyncio.get_running_loop(), 0.01)
    opened = Nodes(OWN, local, wheel, connect_timeout=5)
    yield opened
    opened.close()
    wheel.close()


def message(uaid: str = UAID) -> Notification:
    return Notification(uaid=uaid, channel_id=CHANNEL, version="v", ttl=60, sort_time=1)


def at(port: int) -> str:
    return f"http://127.0.0.1:{port}"


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not holds():  # noqa: ASYNC110 - a server does not tell when a connection ends
            await asyncio.sleep(0)


CALLS: list[Callable[[Nodes, str], Coroutine[None, None, NodeAnswer]]] = [
    lambda nodes, node_id: nodes.push(node_id, message(), None),
    lambda nodes, node_id: nodes.check(node_id, UAID),
]
PUSH_AND_CHECK = pytest.mark.parametrize("call", CALLS, ids=["push", "check"])
Call = Callable[[Nodes, str], Awaitable[NodeAnswer]]

# ── the own node ────────────────────────────────────────────────────────────────────────────────


async def test_the_own_node_delivers_without_any_link(nodes: Nodes, local: Local) -> None:
    user = local.users[UAID] = FakeUser()
    sent = message()
    assert await nodes.push(OWN, sent, ROW) is NodeAnswer.DONE
    assert user.delivered == [(sent, ROW)]


async def test_a_busy_user_agent_of_the_own_node_is_busy(nodes: Nodes, local: Local) -> None:
    user = local.users[UAID] = FakeUser()
    user.accepts = False
    assert await nodes.push(OWN, message(), None) is NodeAnswer.BUSY


@PUSH_AND_CHECK
async def test_an_absent_user_agent_of_the_own_node_is_absent(nodes: Nodes, call: Call) -> None:
    assert await call(nodes, OWN) is NodeAnswer.ABSENT


@pytest.mark.parametrize("free", [True, False])
async def test_a_check_of_the_own_node_is_done_now_or_noted(
    nodes: Nodes, local: Local, free: bool
) -> None:
    user = local.users[UAID] = FakeUser()
    user.free = free
    assert await nodes.check(OWN, UAID) is NodeAnswer.DONE
    assert user.checks == 1


# ── another node ────────────────────────────────────────────────────────────────────────────────


async def test_what_another_node_is_asked(nodes: Nodes) -> None:
    asked: list[tuple[str, str, bytes]] = []

    async def note(request: Request) -> Response:
        asked.append((request.method, request.path, request.body))
        return Response(200, b"words")

    async with serving(note) as server:
        sent = message()
        sent.stored = "message_2026_11"
        await nodes.push(at(server.port), sent, ROW)
        await nodes.check(at(server.port), UAID)
        await nodes.end_duplicate(at(server.port), UAID, 1234)
    (push, check, end) = asked
    assert push[:2] == ("PUT", f"/push/{UAID}")
    assert json.loads(push[2]) == {
        "channelID": CHANNEL,
        "version": "v",
        "ttl": 60,
        "topic": None,
        "timestamp": 0,
        "stored": "message_2026_11",
    }
    assert check == ("PUT", f"/notif/{UAID}", b"")
    assert end == ("DELETE", f"/notif/{UAID}/1234", b"")


@PUSH_AND_CHECK
@pytest.mark.parametrize(
    ("status", "answer"),
    [
        (200, NodeAnswer.DONE),
        (202, NodeAnswer.DONE),
        (404, NodeAnswer.ABSENT),
        (503, NodeAnswer.BUSY),
        (500, NodeAnswer.SILENT),
        (502, NodeAnswer.SILENT),
        (400, NodeAnswer.BUSY),
    ],
)
async def test_the_status_is_the_answer(
    nodes: Nodes, call: Call, status: int, answer: NodeAnswer
) -> None:
    async def always(request: Request) -> Response:
        return Response(status, b"words of some length")

    async with serving(always) as server:
        for _ in range(2):  # the first answer was read to its end
            assert await call(nodes, at(server.port)) is answer


async def test_calls_to_one_node_share_one_connection(nodes: Nodes) -> None:
    async with serving() as server:
        await asyncio.gather(*(nodes.check(at(server.port), UAID) for _ in range(20)))
        assert server.server.connections == 1


# ── a node that does not answer ─────────────────────────────────────────────────────────────────


@PUSH_AND_CHECK
async def test_a_node_that_refuses_is_unreachable(nodes: Nodes, call: Call) -> None:
    assert await call(nodes, at(unused_port())) is NodeAnswer.UNREACHABLE


@PUSH_AND_CHECK
async def test_a_node_that_does_not_answer_in_time_is_silent(
    nodes: Nodes, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nodes_module, "TOTAL_TIMEOUT", 0.02)
    with deaf_port() as port:
        assert await call(nodes, at(port)) is NodeAnswer.SILENT


@PUSH_AND_CHECK
async def test_a_node_that_cannot_be_connected_to_in_time_is_silent(
    local: Local, call: Call
) -> None:
    """Its user agents may be connected to it all the while."""
    wheel = TimerWheel(asyncio.get_running_loop(), 0.01)
    nodes = Nodes(OWN, local, wheel, connect_timeout=0.02)
    with full_port() as port:
        assert await call(nodes, at(port)) is NodeAnswer.SILENT
    nodes.close()
    wheel.close()


async def test_a_silent_node_costs_one_timeout_whatever_it_is_asked(
    nodes: Nodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nodes_module, "TOTAL_TIMEOUT", 0.05)
    with deaf_port() as port:
        assert await nodes.check(at(port), UAID) is NodeAnswer.SILENT
        for ask in CALLS * 100:
            assert begin(ask(nodes, at(port))) is NodeAnswer.SILENT, "it had to wait"


@PUSH_AND_CHECK
async def test_a_node_just_refused_is_unreachable_only_to_who_was_refused(
    nodes: Nodes, call: Call
) -> None:
    """It may be back already, and the user agent too: that is found out, not remembered."""
    port = unused_port()
    both = await asyncio.gather(call(nodes, at(port)), call(nodes, at(port)))
    assert set(both) == {NodeAnswer.UNREACHABLE}
    assert await call(nodes, at(port)) is NodeAnswer.SILENT


async def test_a_user_agent_that_came_back_to_a_node_just_refused_gets_its_check(
    nodes: Nodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(owed_module, "ASK_AGAIN", 0.01)
    checked = asyncio.Event()

    async def note(request: Request) -> Response:
        checked.set()
        return Response(200)

    async with serving(note) as again:
        port = again.port
        again.listener.close()
        await again.listener.wait_closed()
        assert await nodes.push(at(port), message(), None) is NodeAnswer.UNREACHABLE
        listener = await asyncio.get_running_loop().create_server(
            again.server.protocol, "127.0.0.1", port, reuse_address=True
        )
        assert await nodes.check(at(port), UAID) is NodeAnswer.SILENT
        await asyncio.wait_for(checked.wait(), 5)
        listener.close()


async def test_a_node_that_talks_nonsense_is_silent(nodes: Nodes) -> None:
    async def talk(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"nonsense\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(talk, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        assert await nodes.check(at(port), UAID) is NodeAnswer.SILENT


async def test_a_node_that_hangs_up_is_silent(nodes: Nodes) -> None:
    async def hang_up(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    server = await asyncio.start_server(hang_up, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        assert await nodes.check(at(port), UAID) is NodeAnswer.SILENT


async def test_a_node_with_too_much_waiting_is_silent(nodes: Nodes) -> None:
    with deaf_port() as port:
        calls = [asyncio.ensure_future(nodes.check(at(port), UAID)) for _ in range(1001)]
        assert await calls[-1] is NodeAnswer.SILENT
        nodes.close()
        assert set(await asyncio.gather(*calls[:-1])) == {NodeAnswer.SILENT}


async def test_a_check_that_a_silent_node_owes_is_asked_for_until_it_answers(
    nodes: Nodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(owed_module, "ASK_AGAIN", 0.01)
    answers = [500, 500, 202]
    asked: asyncio.Queue[str] = asyncio.Queue()

    async def answer(request: Request) -> Response:
        asked.put_nowait(request.path)
        return Response(answers.pop(0) if answers else 200)

    async with serving(answer) as server:
        assert await nodes.check(at(server.port), UAID) is NodeAnswer.SILENT
        for _ in range(3):
            assert await asyncio.wait_for(asked.get(), 5) == f"/notif/{UAID}"
        await nodes.check(at(server.port), UAID)  # behind the last answer on the same link
    assert asked.qsize() == 1


async def test_who_ends_tells_silent_nodes_what_they_missed(
    nodes: Nodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(owed_module, "ASK_AGAIN", 0.01)
    answers = [500, 500]

    async def answer(request: Request) -> Response:
        return Response(answers.pop() if answers else 200)

    async with serving(answer) as server:
        assert await nodes.check(at(server.port), UAID) is NodeAnswer.SILENT
        await nodes.finish(5)
        assert answers == []


@pytest.mark.parametrize(
    "call",
    [
        lambda nodes, node_id, uaid: nodes.end_duplicate(node_id, uaid, 1),
        lambda nodes, node_id, uaid: nodes.push(node_id, message(uaid), ROW),
    ],
    ids=["end of a duplicate", "push of a stored message"],
)
async def test_a_call_that_waits_for_the_store_over_there_holds_up_nobody_else(
    nodes: Nodes, call: Callable[[Nodes, str, str], Awaitable[object]]
) -> None:
    slow, go = asyncio.Event(), asyncio.Event()

    async def answer(request: Request) -> Response:
        if not slow.is_set():
            slow.set()
            await go.wait()
        return Response(200)

    async with serving(answer) as server:
        node_id, other = at(server.port), UAID[:-1] + "0"
        first = asyncio.ensure_future(call(nodes, node_id, UAID))
        await slow.wait()
        await call(nodes, node_id, other)
        assert await nodes.check(node_id, UAID) is NodeAnswer.DONE
        assert await nodes.push(node_id, message(), None) is NodeAnswer.DONE
        assert not first.done()
        go.set()
        await first


async def test_ending_a_duplicate_on_a_node_that_is_gone_is_no_error(nodes: Nodes) -> None:
    await nodes.end_duplicate(at(unused_port()), UAID, 5)


@PUSH_AND_CHECK
@pytest.mark.parametrize(
    "node_id",
    [
        "",
        "nonsense",
        "http://",
        "http://127.0.0.1",
        "http://127.0.0.1:0",
        "http://127.0.0.1:x",
        "http://127.0.0.1:99999",
        "http://[::1",
        "http://:8081",
        "http://no such host:8081",
        "http://nöde.example:8081",
        "http://..:8081",
        f"http://{'a' * 64}.example:8081",
    ],
)
async def test_a_node_id_that_names_no_node_is_unreachable(
    nodes: Nodes, call: Call, node_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nodes_module, "TOTAL_TIMEOUT", 5)
    async with asyncio.timeout(2):
        assert await call(nodes, node_id) is NodeAnswer.UNREACHABLE


# ── links ───────────────────────────────────────────────────────────────────────────────────────


async def test_the_number_of_links_is_bounded_the_oldest_goes(
    nodes: Nodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nodes_module, "MAX_LINKS", 2)
    async with serving() as first, serving() as second, serving() as third:
        for server in (first, second, third):
            assert await nodes.check(at(server.port), UAID) is NodeAnswer.DONE
        await until(lambda: first.server.connections == 0)
        assert (second.server.connections, third.server.connections) == (1, 1)
        assert await nodes.check(at(first.port), UAID) is NodeAnswer.DONE


async def test_closing_ends_every_link(nodes: Nodes) -> None:
    async with serving() as first, serving() as second:
        for server in (first, second):
            await nodes.check(at(server.port), UAID)
        nodes.close()
        await until(lambda: first.server.connections == second.server.connections == 0)
