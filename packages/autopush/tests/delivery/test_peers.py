"""Calls from node to node: to the own node without a link, to others over HTTP."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from pathlib import Path

import pytest

from autopush.delivery import peers
from autopush.delivery.calls import CheckStorage, EndDuplicate, Outcome
from autopush.delivery.peers import END_DUPLICATE_CALLS, NODE, RELAY, InstanceCall, Nodes
from autopush.net.http_messages import Request, Response
from autopush.net.siblings import (
    PREDECESSOR,
    SUCCESSOR,
    Adoption,
    Siblings,
    add_successors,
    socket_pairs,
)
from autopush.net.timers import TimerWheel
from autopush.net.tls import ClientTls
from autopush.webpush.notification import Notification
from support.cases import cases
from support.certificates import tls_pair
from support.connection_harness import CHANNEL, UAID, Harness
from support.event_loops import at_once, until
from support.http_shell import serving
from support.node_server import KEYS, AuthenticNode, node_serving
from support.node_server import node_at as at
from support.sockets import silent_port, unused_port
from support.stream_server import stream_server

OWN = "http://127.0.0.1:1"


@pytest.fixture
def request_timeout() -> float:
    """Seconds that other nodes have to answer; a test may set another."""
    return 30


@pytest.fixture
async def nodes(harness: Harness, request_timeout: float) -> AsyncIterator[Nodes]:
    wheel = TimerWheel(asyncio.get_running_loop(), 0.01)
    opened = Nodes(
        OWN,
        harness.parts.answering,
        wheel,
        harness.metrics,
        keys=KEYS,
        connect_timeout=5,
        request_timeout=request_timeout,
    )
    yield opened
    opened.close()
    wheel.close()


def message(uaid: str = UAID) -> Notification:
    return Notification(uaid=uaid, channel_id=CHANNEL, version="v", ttl=60, sort_time=1)


def stored_message(uaid: str) -> Notification:
    stored = message(uaid)
    stored.stored = "message"
    return stored


CALLS: list[Callable[[Nodes, str], Coroutine[None, None, Outcome]]] = [
    lambda nodes, node_id: nodes.push(node_id, message()),
    lambda nodes, node_id: nodes.check_storage(node_id, UAID),
    lambda nodes, node_id: nodes.find_connection(node_id, UAID),
    lambda nodes, node_id: nodes.push_if_subscribed(node_id, message()),
]
NAMES = ["push", "check", "find_connection", "push_if_subscribed"]
EACH_CALL = pytest.mark.parametrize("call", CALLS, ids=NAMES)
Call = Callable[[Nodes, str], Awaitable[Outcome]]

# ── the own node ────────────────────────────────────────────────────────────────────────────────


async def test_the_own_node_delivers_without_a_link(nodes: Nodes, harness: Harness) -> None:
    agent = await harness.subscribed()
    unsaved, stored = harness.message(agent.uaid), await harness.store_message(agent.uaid)
    assert await nodes.push(OWN, unsaved) is Outcome.DONE
    assert await nodes.push(OWN, stored) is Outcome.DONE
    notifications = agent.received()
    agent.ack(*notifications)
    await harness.run_until_idle()
    assert len(notifications) == 2
    assert harness.rows() == []


# ── another node ────────────────────────────────────────────────────────────────────────────────


async def test_the_requests_to_another_node(nodes: Nodes) -> None:
    calls: list[tuple[str, str, bytes]] = []

    async def record(request: Request) -> Response:
        calls.append((request.method, request.path, request.body))
        return Response(200, b"text")

    async with node_serving(record) as server:
        sent = message()
        sent.stored = "message_2026_11"
        await nodes.push(at(server.port), sent)
        await nodes.check_storage(at(server.port), UAID, "low")
        await nodes.end_duplicate(at(server.port), UAID, 1234)
        await nodes.push_if_subscribed(at(server.port), message())
    (push, check, end, conditional) = calls
    assert push[:2] == ("PUT", f"/push/{UAID}")
    assert json.loads(push[2]) == {
        "channelID": CHANNEL,
        "version": "v",
        "ttl": 60,
        "topic": None,
        "timestamp": 0,
        "stored": "message_2026_11",
        "sort_time": "1",
    }
    assert check == ("PUT", f"/notif/{UAID}", b"low")
    assert end == ("DELETE", f"/notif/{UAID}/1234", b"")
    assert conditional == ("PUT", f"/push/{UAID}/subscribed", message().to_node())


@EACH_CALL
@cases(
    ("status", "answer"),
    [
        (200, Outcome.DONE),
        (202, Outcome.STORED),
        (404, Outcome.ABSENT),
        (503, Outcome.BUSY),
        (500, Outcome.SILENT),
        (502, Outcome.SILENT),
        (400, Outcome.BUSY),
    ],
)
async def test_the_status_decides_the_answer(
    nodes: Nodes, call: Call, status: int, answer: Outcome
) -> None:
    async def always(request: Request) -> Response:
        return Response(status, b"text of some length")

    async with node_serving(always) as server:
        for _ in range(2):  # the first answer was read to its end
            assert await call(nodes, at(server.port)) is answer


# ── a node that does not answer ─────────────────────────────────────────────────────────────────


@EACH_CALL
async def test_a_node_that_refuses_may_be_back(nodes: Nodes, call: Call) -> None:
    answer = await call(nodes, at(unused_port()))
    assert answer is Outcome.REFUSED
    assert answer.may_be_back
    assert not answer.means_gone


@EACH_CALL
@pytest.mark.parametrize("request_timeout", [0.02])
async def test_a_node_that_does_not_answer_in_time_is_silent(nodes: Nodes, call: Call) -> None:
    with silent_port() as port:
        assert await call(nodes, at(port)) is Outcome.SILENT


async def test_a_node_that_is_back_after_a_refusal_gets_its_check(
    nodes: Nodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(peers, "RETRY_INTERVAL", 0.01)
    checked = asyncio.Event()

    async def record(request: Request) -> Response:
        checked.set()
        return Response(200)

    async with node_serving(record) as again:
        port = again.port
        again.listener.close()
        await again.listener.wait_closed()
        assert await nodes.push(at(port), message()) is Outcome.REFUSED
        listener = await asyncio.get_running_loop().create_server(
            again.server.protocol, "127.0.0.1", port, reuse_address=True
        )
        assert await nodes.check_storage(at(port), UAID) is Outcome.SILENT
        await asyncio.wait_for(checked.wait(), 30)
        listener.close()


async def test_a_check_that_a_silent_node_missed_is_repeated_until_it_answers(
    nodes: Nodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(peers, "RETRY_INTERVAL", 0.01)
    answers = [500, 500, 202]
    calls: asyncio.Queue[str] = asyncio.Queue()

    async def answer(request: Request) -> Response:
        calls.put_nowait(request.path)
        return Response(answers.pop(0) if answers else 200)

    async with node_serving(answer) as server:
        assert await nodes.check_storage(at(server.port), UAID) is Outcome.SILENT
        for _ in range(3):
            assert await asyncio.wait_for(calls.get(), 30) == f"/notif/{UAID}"
        await nodes.check_storage(at(server.port), UAID)  # behind the last answer on the same link
    assert calls.qsize() == 1


async def test_a_duplicate_that_a_silent_node_has_is_ended_when_it_answers(
    nodes: Nodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is unacked on that connection would be saved only when its ping is not answered."""
    monkeypatch.setattr(peers, "RETRY_INTERVAL", 0.01)
    answers = [500, 500, 200]
    calls: list[tuple[str, str]] = []

    async def answer(request: Request) -> Response:
        calls.append((request.method, request.path))
        return Response(answers.pop(0))

    async with node_serving(answer) as server:
        await nodes.end_duplicate(at(server.port), UAID, 1234)
        await nodes.finish(30)
    assert calls == [("DELETE", f"/notif/{UAID}/1234")] * 3


async def test_finish_repeats_the_checks_that_silent_nodes_missed(
    nodes: Nodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(peers, "RETRY_INTERVAL", 0.01)
    answers = [500, 500]

    async def answer(request: Request) -> Response:
        return Response(answers.pop() if answers else 200)

    async with node_serving(answer) as server:
        assert await nodes.check_storage(at(server.port), UAID) is Outcome.SILENT
        await nodes.finish(30)
        assert answers == []


@pytest.mark.parametrize(
    "call",
    [
        lambda nodes, node_id, uaid: nodes.end_duplicate(node_id, uaid, 1),
        lambda nodes, node_id, uaid: nodes.push(node_id, stored_message(uaid)),
    ],
    ids=["end of a duplicate", "push of a stored message"],
)
async def test_a_call_that_waits_for_the_other_nodes_store_delays_no_other(
    nodes: Nodes, call: Callable[[Nodes, str, str], Awaitable[object]]
) -> None:
    slow, go = asyncio.Event(), asyncio.Event()

    async def answer(request: Request) -> Response:
        if not slow.is_set():
            slow.set()
            await go.wait()
        return Response(200)

    async with node_serving(answer) as server:
        node_id, other = at(server.port), UAID[:-1] + "0"
        first = asyncio.ensure_future(call(nodes, node_id, UAID))
        await slow.wait()
        await call(nodes, node_id, other)
        assert await nodes.check_storage(node_id, UAID) is Outcome.DONE
        assert await nodes.push(node_id, message()) is Outcome.DONE
        assert not first.done()
        go.set()
        await first


@pytest.mark.parametrize(
    ("busy", "calls"), [(0, 1), (1, 2), (4, 5), (9, END_DUPLICATE_CALLS)], ids=str
)
async def test_a_node_that_has_not_saved_its_acks_is_asked_again_a_few_times(
    nodes: Nodes, busy: int, calls: int
) -> None:
    asked: list[str] = []

    async def answer(request: Request) -> Response:
        asked.append(request.method)
        return Response(503 if len(asked) <= busy else 200)

    async with node_serving(answer) as server:
        await nodes.end_duplicate(at(server.port), UAID, 5)
    assert asked == ["DELETE"] * calls


async def test_ending_a_duplicate_on_a_node_that_is_gone_is_no_error(nodes: Nodes) -> None:
    await nodes.end_duplicate(at(unused_port()), UAID, 5)


@EACH_CALL
@cases(
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
        f"http://{'a' * 64}.example:8081/i/of-these-tests",
        "http://127.0.0.1:8081",
        "http://127.0.0.1:8081/",
        "http://127.0.0.1:8081/i/",
        "http://127.0.0.1:8081/of-these-tests",
        "http://127.0.0.1:8081/i/of/these",
    ],
)
async def test_a_node_id_that_names_no_node_takes_nothing(
    nodes: Nodes, call: Call, node_id: str
) -> None:
    async with asyncio.timeout(30):
        assert await call(nodes, node_id) in (Outcome.GONE, Outcome.REFUSED)


# ── links ───────────────────────────────────────────────────────────────────────────────────────


async def test_the_number_of_links_is_bounded_and_the_oldest_is_closed(
    nodes: Nodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(peers, "MAX_LINKS", 2)
    async with node_serving() as first, node_serving() as second, node_serving() as third:
        for server in (first, second, third):
            assert await nodes.check_storage(at(server.port), UAID) is Outcome.DONE
        await until(lambda: first.server.connections == 0)
        assert (second.server.connections, third.server.connections) == (1, 1)
        assert await nodes.check_storage(at(first.port), UAID) is Outcome.DONE


async def test_close_closes_every_link(nodes: Nodes) -> None:
    async with node_serving() as first, node_serving() as second:
        for server in (first, second):
            await nodes.check_storage(at(server.port), UAID)
        nodes.close()
        await until(lambda: first.server.connections == second.server.connections == 0)


# ── nodes with https ────────────────────────────────────────────────────────────────────────────


@EACH_CALL
async def test_a_node_with_an_https_url_is_called_over_tls(
    harness: Harness, tmp_path: Path, call: Call
) -> None:
    server, _ = tls_pair(tmp_path)
    wheel = TimerWheel(asyncio.get_running_loop(), 0.01)
    trust = ClientTls(str(tmp_path / "server.pem"))
    nodes = Nodes(
        OWN,
        harness.parts.answering,
        wheel,
        harness.metrics,
        keys=KEYS,
        connect_timeout=5,
        tls=trust,
    )
    async with node_serving(tls=server) as served:
        assert await call(nodes, at(served.port, "https")) is Outcome.DONE
        assert await call(nodes, at(served.port)) is Outcome.SILENT  # it is not http
        nodes.close()
    wheel.close()


@EACH_CALL
async def test_a_node_that_is_not_trusted_is_not_gone(
    nodes: Nodes, tmp_path: Path, call: Call
) -> None:
    server, _ = tls_pair(tmp_path)
    async with node_serving(tls=server) as served:
        node_id = at(served.port, "https")
        for _ in range(2):
            assert await call(nodes, node_id) is Outcome.SILENT


@EACH_CALL
async def test_a_node_with_an_https_url_that_refuses_may_be_back(nodes: Nodes, call: Call) -> None:
    assert await call(nodes, at(unused_port(), "https")) is Outcome.REFUSED


# ── who answers there ───────────────────────────────────────────────────────────────────────────


class Stranger:
    """A process on the port of an earlier node: it responds as that node would, without its key."""

    def __init__(self, response: bytes) -> None:
        self._response = response
        self.received = b""

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            self.received += data
            writer.write(self._response)


RESPONSES = {
    "accepted": b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok",
    "absent": b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n",
    "forged": b"HTTP/1.1 200 OK\r\nauthentication-info: 00\r\ncontent-length: 2\r\n\r\nok",
    "failed": b"HTTP/1.1 502 Bad Gateway\r\ncontent-length: 0\r\n\r\n",
    "refused": b"HTTP/1.1 401 Unauthorized\r\ncontent-length: 0\r\n\r\n",
}


@EACH_CALL
@pytest.mark.parametrize("response", RESPONSES.values(), ids=RESPONSES)
async def test_a_stranger_on_the_port_of_a_node_gets_nothing_and_is_not_believed(
    nodes: Nodes, call: Call, response: bytes
) -> None:
    stranger = Stranger(response)
    async with stream_server(stranger) as (_, port):
        assert await call(nodes, at(port)) is Outcome.SILENT
        nodes.close()
    assert b"GET /i/" in stranger.received
    for secret in (UAID, CHANNEL, "/push", "/notif"):
        assert secret.encode() not in stranger.received
    assert stranger.received.count(b"\r\n\r\n") == 1


async def test_a_node_without_a_key_in_common_is_not_gone_and_logged_once(
    nodes: Nodes, caplog: pytest.LogCaptureFixture
) -> None:
    node = AuthenticNode(keys=(b"of another service",))
    async with serving(node) as server:
        for _ in range(3):
            assert await nodes.push(at(server.port), message()) is Outcome.SILENT
    assert set(node.refused) == {"no crypto_key in common"}
    [record] = caplog.records
    assert record.levelname == "ERROR"
    assert record.getMessage().startswith("A node has no crypto_key in common with this one")
    assert record.__dict__["fields"] == {
        "node": at(server.port),
        "reason": "it refuses the crypto_key of this node",
    }


@EACH_CALL
async def test_a_node_that_was_started_since_is_gone_and_not_asked_again(
    nodes: Nodes, call: Call
) -> None:
    node = AuthenticNode(name="started-since")
    async with serving(node) as server:
        both = await asyncio.gather(call(nodes, at(server.port)), call(nodes, at(server.port)))
        assert set(both) == {Outcome.GONE}
        await until(lambda: server.server.connections == 0)
        for make_call in CALLS:
            assert at_once(make_call(nodes, at(server.port))) is Outcome.GONE


async def test_a_check_of_an_instance_that_is_gone_is_not_repeated(nodes: Nodes) -> None:
    async with serving(AuthenticNode(name="started-since")) as server:
        assert await nodes.check_storage(at(server.port), UAID) is Outcome.GONE
    await asyncio.wait_for(nodes.finish(60), 30)


async def test_what_a_node_took_for_a_duplicate_is_read_when_that_node_is_gone(
    nodes: Nodes, harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(peers, "RETRY_INTERVAL", 0.01)
    agent = await harness.subscribed()
    async with serving(AuthenticNode(name="started-since")) as server:
        nodes._pending.add(at(server.port), EndDuplicate(agent.uaid, 1))
        taken = await harness.store_message(agent.uaid)
        await nodes.finish(10)
    await harness.run_until_idle()
    assert agent.versions() == [taken.version]


async def test_a_node_that_has_forgotten_the_session_gets_the_next_call_in_a_new_one(
    nodes: Nodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(peers, "RETRY_INTERVAL", 0.01)
    calls: asyncio.Queue[str] = asyncio.Queue()

    async def record(request: Request) -> Response:
        calls.put_nowait(request.path)
        return Response(200)

    node = AuthenticNode(record)
    async with serving(node) as server:
        assert await nodes.check_storage(at(server.port), UAID) is Outcome.DONE
        calls.get_nowait()
        node.sessions._sessions.clear()
        assert await nodes.check_storage(at(server.port), UAID) is Outcome.SILENT
        assert await asyncio.wait_for(calls.get(), 30) == f"/notif/{UAID}"
    assert node.refused == ["an unknown session"]


async def test_calls_that_wait_for_the_handshake_are_made_in_their_order(nodes: Nodes) -> None:
    paths: list[str] = []

    async def record(request: Request) -> Response:
        paths.append(request.path)
        return Response(200)

    uaids = [f"{number:032x}" for number in range(50)]
    node = AuthenticNode(record)
    async with serving(node) as server:
        answers = await asyncio.gather(
            *(nodes.check_storage(at(server.port), uaid) for uaid in uaids)
        )
    assert set(answers) == {Outcome.DONE}
    assert paths == [f"/notif/{uaid}" for uaid in uaids]
    assert len(node.sessions) == 1


async def test_a_worker_that_ends_calls_its_siblings_through_the_next_version(
    harness: Harness,
) -> None:
    wheel, calls = TimerWheel(asyncio.get_running_loop(), 0.02), list[InstanceCall]()

    def answer(call: InstanceCall) -> Outcome:
        calls.append(call)
        return Outcome.DONE

    old, new = socket_pairs(2), socket_pairs(2)
    next_of_first, next_of_second = add_successors(old)
    new[0][PREDECESSOR] = next_of_first
    first, next_first, next_second = (Siblings.on(ends, wheel) for ends in (old[0], new[0], new[1]))
    second = "http://second:1"
    nodes, next_nodes = (
        Nodes(
            "http://first:1/i/first",
            harness.parts.answering,
            wheel,
            harness.metrics,
            keys=KEYS,
            connect_timeout=1,
            siblings=siblings,
            sibling_urls={second: 1},
        )
        for siblings in (first, next_first)
    )
    first.start({}, refuse)
    next_first.start({RELAY: next_nodes.relay}, refuse)
    next_second.start({NODE: answer}, refuse)
    await first[SUCCESSOR].wait_until_known(30)
    await next_first[1].wait_until_known(30)

    node_id = f"{second}/i/second"
    assert await nodes.check_storage(node_id, UAID) is Outcome.SILENT  # it has ended
    nodes.is_relayed = True
    assert await nodes.check_storage(node_id, UAID) is Outcome.DONE
    assert [(call.instance, call.call) for call in calls] == [("/i/second", CheckStorage(UAID))]
    next_second.close()
    await next_first[1].wait_until_ended(30)
    assert await nodes.check_storage(node_id, UAID) is Outcome.SILENT
    next_first.close()  # whoever passes a call on may end: the node is not gone for that
    await first[SUCCESSOR].wait_until_ended(30)
    assert await nodes.check_storage(node_id, UAID) is Outcome.SILENT
    nodes.close()
    first.close()
    for end in (*old[1].values(), *new[1].values(), next_of_second):
        end.close()


def refuse(sock: socket.socket, _: bytes) -> Adoption:
    sock.close()
    return Adoption.REFUSED
