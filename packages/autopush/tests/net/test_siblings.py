"""Workers of one service that call each other and hand over connections."""

import asyncio
import os
import select
import socket
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any
from unittest.mock import patch

import msgspec
import pytest

import autopush.net.siblings as module
from autopush.net.siblings import (
    CONNECTIONS_PER_TURN,
    FRAMES,
    MAX_PACKET,
    MAX_WAITING,
    PREDECESSOR,
    SILENT_AFTER,
    SUCCESSOR,
    Adopting,
    Adoption,
    CallTooLarge,
    Patience,
    Port,
    PortHandler,
    SiblingBusy,
    SiblingNotStarted,
    SiblingRestarted,
    Siblings,
    SiblingSilent,
    add_successors,
    processor_wait,
    socket_pairs,
)
from autopush.net.timers import TimerWheel
from support.event_loops import until

VIRTUAL_TIME = True

PORT = Port[str, str]("port", str, str)


def refuse(sock: socket.socket, _: bytes) -> Adoption:
    sock.close()
    return Adoption.REFUSED


def echo(asked: str) -> str:
    return asked


def now() -> float:
    return asyncio.get_running_loop().time()


class Pair:
    """Two workers; `start` makes the one of an index, also again."""

    def __init__(self) -> None:
        self.wheel = TimerWheel(asyncio.get_running_loop(), tick=0.02)
        self.ends = socket_pairs(2)
        self.running: dict[int, Siblings] = {}

    def start(
        self,
        index: int,
        answer: PortHandler | None = None,
        adopt: Adopting | None = None,
        monotonic: Callable[[], float] = now,
        wait: Callable[[], float] = lambda: 0.0,
    ) -> Siblings:
        sockets = {other: end.dup() for other, end in self.ends[index].items()}
        siblings = Siblings.on(
            sockets, self.wheel, silent_after=1.0, monotonic=monotonic, wait=wait
        )
        ports = {} if answer is None else {PORT: answer}
        siblings.start(ports, adopt or refuse)
        self.running[index] = siblings
        return siblings

    async def connected(self, *answers: Any, **clocks: Any) -> Siblings:
        """Start both, the second with these arguments; the first has heard it."""
        caller = self.start(0)
        self.start(1, *answers, **clocks)
        await heard(caller)
        return caller

    def kill(self, index: int) -> None:
        """As a process is killed: its descriptors are closed, the supervisor keeps its own."""
        with patch("autopush.net.siblings.report_ended"):
            self.running.pop(index).close()


@pytest.fixture
async def pair() -> AsyncIterator[Pair]:
    made = Pair()
    yield made
    for siblings in made.running.values():
        siblings.close()
    made.wheel.close()
    for ends in made.ends:
        for end in ends.values():
            end.close()


async def heard(siblings: Siblings) -> None:
    """Wait until the other worker has been heard."""
    await until(lambda: not siblings[1].is_silent)


async def test_a_call_is_answered_by_the_other_worker(pair: Pair) -> None:
    caller = await pair.connected(lambda asked: f"{asked}, answered")
    assert await caller[1].call(PORT, "asked") == "asked, answered"


async def test_what_a_version_does_not_understand_fails_as_if_it_stood_still(pair: Pair) -> None:
    """Of a version that asks or answers something else at that port."""
    asks = Port[int, str]("port", int, str)
    answers = Port[str, int]("port", str, int)
    caller = await pair.connected(echo)
    with pytest.raises(SiblingSilent):
        await caller[1].call(asks, 5)
    with pytest.raises(SiblingSilent):
        await caller[1].call(answers, "text")
    assert await caller[1].call(PORT, "text") == "text"


async def test_a_worker_that_is_killed_with_unread_calls_has_ended(pair: Pair) -> None:
    errors: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, about: errors.append(about))
    caller = pair.start(0)
    (unread,) = pair.ends[1].values()  # that it has started
    await until(lambda: select.select([unread], [], [], 0)[0])
    for end in pair.ends[1].values():
        end.close()
    for _ in range(3):  # turns of the loop, in which it is noticed
        await asyncio.sleep(0)
    assert errors == []
    assert not caller[1].was_heard


async def test_a_worker_of_a_version_with_other_frames_counts_as_ended(pair: Pair) -> None:
    errors: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, about: errors.append(about))
    caller = await pair.connected(echo)
    other = pair.running[1][0]
    asyncio.get_running_loop().remove_reader(other._socket)  # it does not answer, but:
    call = caller[1].call(PORT, "/p")
    other._socket.send(msgspec.msgpack.encode([[2, 1]]))
    with pytest.raises(SiblingRestarted):
        await call
    assert errors == []
    assert not caller[1].was_heard
    with pytest.raises(SiblingNotStarted):
        caller[1].call(PORT, "/p")


def packed(*frames: Sequence[object]) -> bytes:
    return b"\xdc" + len(frames).to_bytes(2, "big") + b"".join(map(msgspec.msgpack.encode, frames))


def sent_to(end: socket.socket) -> list[list[object]]:
    """All frames that wait there."""
    frames: list[list[object]] = []
    while select.select([end], [], [], 0)[0]:
        frames += msgspec.msgpack.decode(end.recv(MAX_PACKET))
    return frames


async def test_a_version_with_another_format_is_sent_nothing_until_one_with_ours_follows(
    pair: Pair,
) -> None:
    carried_out = []

    def answer(asked: str) -> str:
        carried_out.append(asked)
        return asked

    caller = pair.start(0, answer)
    (other,) = pair.ends[1].values()
    started = [5, FRAMES + 1]
    other.send(packed(started))
    await caller[1].wait_until_known(10)
    assert caller[1].is_foreign
    assert not caller[1].was_heard
    with pytest.raises(SiblingNotStarted):
        caller[1].call(PORT, "/p")
    # What looks like a call may mean something else there.
    other.send(packed([1, 7, now() + 60, "port", "asked"]))
    other.send(b"neither")
    other.send(packed([5, FRAMES]))
    await heard(caller)
    assert caller.heard(1) is not None
    assert carried_out == []
    await until(lambda: select.select([other], [], [], 0)[0])
    assert sent_to(other) == [[5, FRAMES], [8], [4, FRAMES]]


@pytest.mark.parametrize("first", [[5], [4], [5, 1], [4, 1]], ids=str)
async def test_a_version_with_the_first_format_is_foreign(pair: Pair, first: list[object]) -> None:
    caller = pair.start(0)
    (other,) = pair.ends[1].values()
    other.send(packed(first))
    await caller[1].wait_until_known(10)
    assert caller[1].is_foreign


def test_a_format_with_this_number_stays_as_it_is() -> None:
    """Fields may be added at the end, with defaults; all else needs another number."""
    fields = {
        name: tuple(frame.__struct_fields__)
        for name, frame in vars(module).items()
        if isinstance(frame, type) and issubclass(frame, msgspec.Struct)
    }
    assert (FRAMES, fields) == (
        2,
        {
            "_Call": ("number", "expires", "port", "asked"),
            "_Answer": ("number", "answered"),
            "_Ping": (),
            "_Pong": ("frames",),
            "_Started": ("frames",),
            "_Connection": ("number", "expires", "state"),
            "_TooLate": ("number",),
            "_Ended": (),
        },
    )


async def test_answers_come_as_they_are_ready(pair: Pair) -> None:
    gates = {"/slow": asyncio.Event(), "/fast": asyncio.Event()}

    async def answer(asked: str) -> str:
        if asked in gates:
            await gates[asked].wait()
        return asked

    caller = await pair.connected(answer)
    slow = caller[1].call(PORT, "/slow")
    fast = caller[1].call(PORT, "/fast")
    gates["/fast"].set()
    assert await fast == "/fast"
    gates["/slow"].set()
    assert await slow == "/slow"


async def test_many_large_requests_wait_until_the_other_worker_reads(pair: Pair) -> None:
    caller = await pair.connected(lambda asked: asked[:4])
    bodies = [f"{number:04}" + 50_000 * "x" for number in range(200)]
    calls = [caller[1].call(PORT, body) for body in bodies]
    answers = await asyncio.gather(*calls)
    assert answers == [body[:4] for body in bodies]


async def test_what_waits_for_a_silent_worker_fails_and_what_follows_fails_at_once(
    pair: Pair,
) -> None:
    answered: list[str] = []

    def answer(asked: str) -> str:
        answered.append(asked)
        return asked

    caller = await pair.connected(answer)
    other = pair.running[1][0]
    loop = asyncio.get_running_loop()
    loop.remove_reader(other._socket)  # it stands still
    call = caller[1].call(PORT, "/late")
    with pytest.raises(SiblingSilent):
        await call
    with pytest.raises(SiblingSilent):
        caller[1].call(PORT, "/p")
    loop.add_reader(other._socket, other._on_readable)  # it wakes up
    await heard(caller)
    assert await caller[1].call(PORT, "/p") == "/p"
    assert answered == ["/p"]  # what had failed is not carried out


class Machine:
    """Its time, and for how long the process has waited for a processor."""

    def __init__(self) -> None:
        self.now = self.waited = 1000.0
        self.patience = Patience(SILENT_AFTER, lambda: self.now, lambda: self.waited)

    def after(self, seconds: float, waited: float) -> float:
        self.now += seconds
        self.waited += waited
        self.patience.measure()
        return self.patience.seconds


def test_patience_grows_with_the_share_of_time_without_a_processor() -> None:
    machine = Machine()
    assert machine.after(1, 0) == 2
    assert machine.after(1, 0.5) == 4
    assert machine.after(1, 0.99) == 8  # no longer than that


def test_patience_shrinks_only_when_no_call_expires_later() -> None:
    machine = Machine()
    assert machine.after(1, 0.5) == 4
    assert [machine.after(1, 0) for _ in range(9)] == [*[4] * 8, 2]


def test_a_time_in_which_nobody_called_says_nothing_of_the_machine() -> None:
    machine = Machine()
    assert machine.after(60, 55) == 2
    assert machine.after(0.1, 0.1) == 2
    assert machine.after(0.9, 0.4) == 4


@pytest.mark.skipif(not os.path.exists("/proc/self/schedstat"), reason="the kernel counts no waits")
def test_the_system_counts_what_a_process_waits_for_a_processor() -> None:
    before = processor_wait()
    assert before > 0
    assert processor_wait() >= before


async def test_a_call_that_is_read_too_late_fails_though_the_worker_is_heard(pair: Pair) -> None:
    answered: list[str] = []

    def answer(asked: str) -> str:
        answered.append(asked)
        return asked

    # Each call is too old.
    caller = await pair.connected(answer, monotonic=lambda: now() + 2)
    with pytest.raises(SiblingSilent):
        await asyncio.wait_for(caller[1].call(PORT, "/p"), 30)
    assert answered == []
    assert not caller[1].is_silent


async def test_a_call_that_takes_long_is_no_silence(pair: Pair) -> None:
    gate = asyncio.Event()

    async def answer(asked: str) -> str:
        if asked == "/long":
            await gate.wait()
        return asked

    caller = await pair.connected(answer)
    call = asyncio.ensure_future(caller[1].call(PORT, "/long"))
    done, _ = await asyncio.wait([call], timeout=3)  # three times `silent_after`
    assert not done
    gate.set()
    assert await call


async def test_what_waited_for_a_worker_that_was_restarted_fails_and_is_not_carried_out(
    pair: Pair,
) -> None:
    never = asyncio.Event()

    async def hang(asked: str) -> str:
        await never.wait()
        return asked

    caller = await pair.connected(hang)
    read = asyncio.ensure_future(caller[1].call(PORT, "/read"))
    await asyncio.sleep(0)
    pair.kill(1)
    unread = asyncio.ensure_future(caller[1].call(PORT, "/unread"))
    await asyncio.sleep(0)
    paths: list[str] = []

    def answer(asked: str) -> str:
        paths.append(asked)
        return asked

    pair.start(1, answer)
    for call in (read, unread):
        with pytest.raises(SiblingRestarted):
            await call
    assert await caller[1].call(PORT, "/p") == "/p"
    assert paths == ["/p"]


async def test_calls_without_an_answer_are_bounded(pair: Pair) -> None:
    never = asyncio.Event()

    async def hang(asked: str) -> str:
        await never.wait()
        return asked

    caller = await pair.connected(hang)
    calls = [caller[1].call(PORT, "/p") for _ in range(MAX_WAITING)]
    with pytest.raises(SiblingBusy):
        caller[1].call(PORT, "/p")
    pair.kill(0)
    ends = await asyncio.gather(*calls, return_exceptions=True)
    assert {type(end) for end in ends} == {SiblingSilent}


async def test_a_request_that_fits_into_no_packet_is_refused(pair: Pair) -> None:
    caller = await pair.connected(echo)
    with pytest.raises(CallTooLarge):
        caller[1].call(PORT, "x" * MAX_PACKET)


async def test_a_connection_goes_on_in_the_other_worker(pair: Pair) -> None:
    adopted: list[tuple[socket.socket, bytes]] = []

    def adopt(sock: socket.socket, state: bytes) -> Adoption:
        adopted.append((sock, state))
        return Adoption.TAKEN

    caller = await pair.connected(echo, adopt)
    here, client = socket.socketpair()
    answer = await caller[1].hand_over(here.fileno(), b"state")
    here.close()
    assert answer is Adoption.TAKEN
    ((there, state),) = adopted
    client.sendall(b"hello")
    assert (state, there.recv(10)) == (b"state", b"hello")
    there.close()
    client.close()


async def test_a_connection_that_is_not_taken_over_stays(pair: Pair) -> None:
    caller = await pair.connected(echo)
    here, client = socket.socketpair()
    assert await caller[1].hand_over(here.fileno(), b"") is Adoption.REFUSED
    with pytest.raises(CallTooLarge):
        caller[1].hand_over(here.fileno(), bytes(MAX_PACKET))
    here.sendall(b"x")
    assert client.recv(1) == b"x"
    here.close()
    client.close()


async def test_a_connection_to_a_worker_that_stands_still_is_not_taken_over_later(
    pair: Pair,
) -> None:
    adopted: list[bytes] = []

    def adopt(sock: socket.socket, state: bytes) -> Adoption:
        adopted.append(state)
        return refuse(sock, state)

    now = [100.0]
    caller = pair.start(0, monotonic=lambda: now[0])
    other = pair.start(1, echo, adopt, monotonic=lambda: now[0])
    await heard(caller)
    reader = other[0]
    pair.wheel.loop.remove_reader(reader._socket)
    here, client = socket.socketpair()
    moving = asyncio.ensure_future(caller[1].hand_over(here.fileno(), b""))
    await asyncio.sleep(0)
    now[0] += 1.5
    pair.wheel.loop.add_reader(reader._socket, reader._on_readable)
    with pytest.raises(SiblingSilent):
        await moving
    assert adopted == []
    here.close()
    client.close()


async def test_a_turn_takes_over_some_of_many_connections_and_then_the_call_behind_them(
    pair: Pair,
) -> None:
    turn, seen = 0, list[int]()
    loop = asyncio.get_running_loop()

    def count() -> None:
        nonlocal turn
        turn += 1
        loop.call_soon(count)

    def adopt(sock: socket.socket, state: bytes) -> Adoption:
        seen.append(turn)
        return refuse(sock, state)

    def answer(asked: str) -> str:
        seen.append(turn)
        return asked

    caller = pair.start(0)
    other = pair.start(1, answer, adopt)
    await heard(caller)
    reader = other[0]
    loop.remove_reader(reader._socket)
    here, client = socket.socketpair()
    many = 2 * CONNECTIONS_PER_TURN
    moving = [asyncio.ensure_future(caller[1].hand_over(here.fileno(), b"")) for _ in range(many)]
    call = asyncio.ensure_future(caller[1].call(PORT, "/p"))
    await asyncio.sleep(0.01)
    count()
    loop.add_reader(reader._socket, reader._on_readable)
    await asyncio.gather(*moving, call)
    assert [*Counter(seen).values()] == [CONNECTIONS_PER_TURN, CONNECTIONS_PER_TURN, 1]
    here.close()
    client.close()


async def test_a_worker_that_ends_says_so(pair: Pair) -> None:
    gate = asyncio.Event()

    async def answer(asked: str) -> str:
        await gate.wait()
        return asked

    caller = await pair.connected(answer)
    assert caller.heard(1) is not None
    waiting = caller[1].call(PORT, "/p")
    await asyncio.sleep(0)
    pair.running.pop(1).close()
    with pytest.raises(SiblingRestarted):
        await waiting
    assert not caller[1].was_heard
    with pytest.raises(SiblingNotStarted):
        caller[1].call(PORT, "/p")


async def test_the_end_of_a_worker_is_waited_for_if_it_was_heard(pair: Pair) -> None:
    first = pair.start(0)
    await first[1].wait_until_ended(60)  # it was never heard
    pair.start(1)
    await until(lambda: first[1].was_heard)
    waiting = asyncio.create_task(first[1].wait_until_ended(60))
    await first[1].wait_until_ended(0)  # not longer than that
    assert not waiting.done()
    pair.running.pop(1).close()
    await waiting


async def test_the_end_of_all_processes_at_the_other_end_is_noticed(pair: Pair) -> None:
    (own,) = ends = [dict[int, socket.socket]()]
    (successor,) = add_successors(ends)
    here = Siblings.on({SUCCESSOR: own[SUCCESSOR]}, pair.wheel)
    there = Siblings.on({PREDECESSOR: successor.dup()}, pair.wheel)
    here.start({}, refuse)
    there.start({PORT: echo}, refuse)
    await until(lambda: here[SUCCESSOR].was_heard)
    assert await here[SUCCESSOR].call(PORT, "asked") == "asked"
    there.close()
    successor.close()
    await until(lambda: not here[SUCCESSOR].was_heard)
    here.close()


async def test_nothing_is_handed_to_a_worker_that_was_never_heard(pair: Pair) -> None:
    caller = pair.start(0)
    reader, writer = os.pipe()
    try:
        with pytest.raises(SiblingNotStarted):
            caller[1].hand_over(reader, b"")
        with pytest.raises(SiblingSilent):
            caller[1].call(PORT, "/p")
    finally:
        os.close(reader)
        os.close(writer)


async def test_a_worker_that_was_never_heard_is_told_from_one_that_stands_still(pair: Pair) -> None:
    caller = pair.start(0)
    with pytest.raises(SiblingNotStarted):
        caller[1].call(PORT, "/p")
