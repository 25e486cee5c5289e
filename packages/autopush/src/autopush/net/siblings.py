"""Between the workers of one service: calls to another worker, and connections that move there.

Each two workers have a pair of packet sockets, made before the fork, so nothing has to be dialled,
authenticated or parsed. What one turn of the loop has for a sibling goes in one packet, and so do
the answers. What is asked and answered are values of the types that a `Port` names, in MessagePack.

While an upgrade is under way, each worker has one more sibling: the worker in its place in the next
version, `SUCCESSOR`, whose own is `PREDECESSOR` there. The first frame that each sends says which
`FRAMES` it knows; a peer with other frames treats this worker as gone.

A worker that stands still is silent: what waits for it fails, and further calls fail at once until
it is heard again. One that has taken the place of another drops the calls that its predecessor has
not read, and says that it has started: what waited for the predecessor fails.

Rule: a call that has failed here is not carried out there later: each says when its caller takes
the worker for silent unless it is heard meanwhile, and one that wakes up after that drops it.
"""

import array
import asyncio
import socket
import time
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from enum import Enum
from itertools import combinations
from typing import Any, Final, Generic, Self, TypeVar, cast

import msgspec

from autopush.net.timers import Timer, TimerWheel

FRAMES: Final = 2
"""The format of the frames. It changes when one gets another meaning, or fields that are needed;
then an upgrade between both formats closes connections in place of handing them over.
"""
PREDECESSOR: Final = -1
SUCCESSOR: Final = -2
"""The index of the worker in the same place in the version before and after this one."""
SILENT_AFTER: Final = 2.0
"""Seconds; more on a machine without enough processors, see `Patience`."""
LARGEST_SHARE: Final = 0.75
"""Of its time that a process may wait for a processor to have its effect on `Patience`."""
CONNECTIONS_PER_TURN: Final = 8
"""Connections of one sibling that are taken over in one turn of the loop."""
MAX_WAITING: Final = 4096
"""Calls to one sibling without an answer."""
MAX_PACKET: Final = 160 * 1024
"""Bytes; the system's limit is about 200 KiB."""

Asked = TypeVar("Asked")
Answered = TypeVar("Answered")


class Port(Generic[Asked, Answered]):
    """What siblings ask each other: the name that both know, and the types of both values.

    `asked`, `answered`: types, or unions of types, that msgspec encodes.
    """

    def __init__(self, name: str, asked: Any, answered: Any) -> None:
        self.name = name
        self.decode_asked: Callable[[msgspec.Raw], Asked]
        self.decode_asked = msgspec.msgpack.Decoder(asked).decode
        self.decode_answered: Callable[[msgspec.Raw], Answered]
        self.decode_answered = msgspec.msgpack.Decoder(answered).decode


class Adoption(Enum):
    """What a sibling answers to a connection that it was sent."""

    TAKEN = 1
    REPLACED = 2
    """Its user agent has a newer connection there."""
    REFUSED = 3
    """Its sender goes on with it."""


PortHandler = Callable[[Any], Any]
"""Answers what is asked at a port, directly or by a coroutine; it does not raise."""
Adopting = Callable[[socket.socket, bytes], Adoption]
"""Takes over a connection in a state that the sibling's `hand_over` was given, or closes its
socket. It does not raise.
"""
_CONNECTIONS: Final = Port[bytes, Adoption]("connections", bytes, Adoption)


class SiblingError(Exception):
    """A call without an answer; the text says why."""


class SiblingSilent(SiblingError):  # noqa: N818 - a state
    """It stands still."""


class SiblingNotStarted(SiblingSilent):
    """It was not heard yet."""


class SiblingRestarted(SiblingError):  # noqa: N818 - a state
    """It has ended without an answer, whether the call was carried out or not."""


class SiblingBusy(SiblingError):  # noqa: N818 - a state
    """Too many calls wait for it."""


class CallTooLarge(SiblingError):  # noqa: N818 - a state
    """What is asked does not fit into a packet."""


class _Call(msgspec.Struct, array_like=True, tag=1, gc=False, frozen=True):
    number: int
    expires: float  # monotonic, which is one clock for all processes
    port: str
    asked: msgspec.Raw  # when it is encoded, the value itself


class _Answer(msgspec.Struct, array_like=True, tag=2, gc=False, frozen=True):
    number: int
    answered: msgspec.Raw


class _Ping(msgspec.Struct, array_like=True, tag=3, gc=False, frozen=True):
    pass


class _Pong(msgspec.Struct, array_like=True, tag=4, gc=False, frozen=True):
    frames: int = 1  # of a version that does not say it


class _Started(msgspec.Struct, array_like=True, tag=5, gc=False, frozen=True):
    frames: int = 1


class _Connection(msgspec.Struct, array_like=True, tag=6, gc=False, frozen=True):
    """A call that comes with a descriptor."""

    number: int
    expires: float
    state: bytes


class _TooLate(msgspec.Struct, array_like=True, tag=7, gc=False, frozen=True):
    """A call that is not carried out."""

    number: int


class _Ended(msgspec.Struct, array_like=True, tag=8, gc=False, frozen=True):
    pass


_Frame = _Call | _Answer | _Ping | _Pong | _Started | _Connection | _TooLate | _Ended

_BUFFER: Final = 224 * 1024  # more than the system allows in a packet
_ONE_DESCRIPTOR: Final = socket.CMSG_SPACE(array.array("i").itemsize)

_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder(list[_Frame]).decode


def socket_pairs(workers: int) -> list[dict[int, socket.socket]]:
    """For each worker its sockets to the others, by their index."""
    ends: list[dict[int, socket.socket]] = [{} for _ in range(workers)]
    for one, other in combinations(range(workers), 2):
        ends[one][other], ends[other][one] = _pair()
    return ends


def processor_wait() -> float:
    """Seconds that the main thread of this process could have run, and waited for a processor."""
    try:
        with open("/proc/self/schedstat", "rb") as file:
            return int(file.read().split()[1]) / 1e9
    except OSError:  # the system does not count it
        return 0.0


class Patience:
    """The timeout for a silent sibling, in `seconds`: `silent_after`, stretched by the share of the
    time that this process waited for a CPU.

    It does not shrink while a call made under a longer timeout is open.
    """

    def __init__(
        self, silent_after: float, now: Callable[[], float], wait: Callable[[], float]
    ) -> None:
        self.seconds = self._shortest = silent_after
        self._longest = silent_after / (1 - LARGEST_SHARE)
        self._now, self._wait = now, wait
        self._measured_at, self._waited = now(), wait()
        self._holds_until = 0.0

    def measure(self) -> None:
        """To be called at least every `silent_after` seconds while it counts."""
        now = self._now()
        elapsed = now - self._measured_at
        if elapsed < self._shortest / 4:
            return
        waited = self._wait()
        if elapsed < 2 * self._shortest:  # else nobody asked, or this process stood still
            share = min(LARGEST_SHARE, (waited - self._waited) / elapsed)
            seconds = self._shortest / (1 - share)
            if seconds >= self.seconds or now > self._holds_until:
                self.seconds, self._holds_until = seconds, now + self._longest
        self._measured_at, self._waited = now, waited


def add_successors(ends: Sequence[dict[int, socket.socket]]) -> list[socket.socket]:
    """Add to the sockets of each worker one to its `SUCCESSOR`, in place of an earlier one; returns
    the other ends of them.
    """
    successors = []
    for own in ends:
        if (former := own.get(SUCCESSOR)) is not None:
            former.close()
        own[SUCCESSOR], successor = _pair()
        successors.append(successor)
    return successors


def report_ended(sock: socket.socket) -> None:
    """Say at the other end of a pair that the process at this one has ended."""
    with suppress(OSError):  # it is not read, and its reader hears nothing from this end either
        sock.send(_packet([_encode(_Ended())]))


def _pair() -> tuple[socket.socket, socket.socket]:
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_NONBLOCK)


class Siblings(dict[int, "Sibling"]):
    """The other workers by index, as seen from one."""

    @classmethod
    def on(
        cls,
        sockets: Mapping[int, socket.socket],
        wheel: TimerWheel,
        *,
        silent_after: float = SILENT_AFTER,
        monotonic: Callable[[], float] = time.monotonic,
        wait: Callable[[], float] = processor_wait,
    ) -> Self:
        """`sockets`: those of one worker in `socket_pairs`. `silent_after`: seconds; `wait`: see
        `processor_wait`.
        """
        buffer = bytearray(_BUFFER)
        patience = Patience(silent_after, monotonic, wait)
        return cls(
            {
                index: Sibling(sock, buffer, wheel, silent_after / 2, patience, monotonic)
                for index, sock in sockets.items()
            }
        )

    def start(self, ports: Mapping[Port[Any, Any], PortHandler], adopt: Adopting) -> None:
        """Begin to answer calls. `ports`: what answers the calls to each."""
        by_name = {port.name: (port, answer) for port, answer in ports.items()}
        for sibling in self.values():
            sibling.start(by_name, adopt)

    def heard(self, index: int) -> "Sibling | None":
        """The sibling of that index, if it was heard and has not said that it ends."""
        sibling = self.get(index)
        return sibling if sibling is not None and sibling.was_heard else None

    async def ask_workers(self, port: Port[None, Answered]) -> list[Answered | None]:
        """Ask each other worker of this service; None for one that does not answer."""

        async def ask(sibling: Sibling) -> Answered | None:
            try:
                return await sibling.call(port, None)
            except SiblingError:
                return None

        workers = [sibling for index, sibling in self.items() if index >= 0]
        return await asyncio.gather(*map(ask, workers))

    def close(self) -> None:
        for sibling in self.values():
            sibling.close()


class Sibling:
    """One other worker."""

    def __init__(
        self,
        sock: socket.socket,
        buffer: bytearray,
        wheel: TimerWheel,
        interval: float,
        patience: Patience,
        monotonic: Callable[[], float],
    ) -> None:
        """`buffer`: for one packet, shared by all siblings, as `patience`. `interval`: seconds
        between two checks.
        """
        self._socket = sock
        self._buffer = buffer
        self._wheel, self._loop = wheel, wheel.loop
        self._interval, self._patience = interval, patience
        self._now = monotonic
        self._ports: _Ports = {}
        self._adopt: Adopting = _refuse
        self.is_silent = True  # until it is heard
        self.was_heard = False
        """Whether it was heard, and has not said that it ends."""
        self.is_foreign = False
        """Whether it is of a version with other frames, so that nothing can be sent to it."""
        self._is_known = asyncio.Event()  # whether it serves, or has ended
        self._ended = asyncio.Event()
        self._ended.set()  # it was not heard yet
        self._heard_at = monotonic()
        self._outgoing: deque[bytes] = deque()
        self._is_flushing = self._is_full = self._has_taken_over = False
        self._waiting: dict[int, tuple[asyncio.Future[Any], Port[Any, Any]]] = {}
        # Answers to calls of an earlier worker in this place must not be taken for ours.
        self._number = time.monotonic_ns()
        self._answering: set[asyncio.Task[None]] = set()
        self._check: Timer | None = None
        self._check_due = 0.0

    def start(self, ports: "_Ports", adopt: Adopting) -> None:
        self._adopt = adopt
        while self._receive():  # of `ports` there is none yet: calls to a predecessor are dropped
            pass
        self._ports = ports
        self._loop.add_reader(self._socket, self._on_readable)
        self._send(_Started(FRAMES))

    def call(self, port: Port[Asked, Answered], asked: Asked) -> Awaitable[Answered]:
        """Have it answer at that port.

        :raises CallTooLarge: at once, as the others
        :raises SiblingNotStarted: it was not heard yet
        :raises SiblingBusy: too many calls wait for it
        :raises SiblingSilent: it stands still; also raised by the result
        :raises SiblingRestarted: by the result
        """
        number, expires = self._next_call()
        frame = _encode(_Call(number, expires, port.name, cast(msgspec.Raw, asked)))
        if len(frame) > MAX_PACKET:
            raise CallTooLarge("the request does not fit into a packet")
        self._queue(frame)
        return self._answer_to(number, port)

    def hand_over(self, descriptor: int, state: bytes) -> Awaitable[Adoption]:
        """Have it take over a connection. The descriptor here is still to be closed.

        What was sent to it before may be carried out after this, but not what is sent later. Raises
        as `call`.
        """
        number, expires = self._next_call()
        packet = _packet([_encode(_Connection(number, expires, state))])
        if len(packet) > MAX_PACKET:
            raise CallTooLarge("the connection does not fit into a packet")
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [descriptor]))]
        try:
            self._socket.sendmsg([packet], rights)
        except OSError as error:
            raise SiblingBusy("its queue is full, or too many descriptors wait") from error
        return self._answer_to(number, _CONNECTIONS)

    async def wait_until_known(self, seconds: float) -> None:
        """Until it is heard, or has ended; at most so many seconds."""
        await _wait_for(self._is_known, seconds)

    async def wait_until_ended(self, seconds: float) -> None:
        """Until it has ended, if it was heard; at most so many seconds."""
        await _wait_for(self._ended, seconds)

    def _next_call(self) -> tuple[int, float]:
        """The number of the next call, and when it expires."""
        if self.is_silent:
            raise SiblingSilent("it does not answer") if self.was_heard else SiblingNotStarted()
        if len(self._waiting) >= MAX_WAITING:
            raise SiblingBusy("too many calls wait for it")
        if not self._waiting:
            self._heard_at = max(self._heard_at, self._now())  # it had nothing to say before
        self._number += 1
        return self._number, self._heard_at + self._patience.seconds

    def _answer_to(self, number: int, port: Port[Any, Any]) -> asyncio.Future[Any]:
        if self._check is None:
            self._check_later(self._now())
        future = self._loop.create_future()
        self._waiting[number] = future, port
        return future

    def close(self) -> None:
        self._loop.remove_reader(self._socket)
        self._loop.remove_writer(self._socket)
        report_ended(self._socket)
        if self._check is not None:
            self._check.cancel()
        self._fail(SiblingSilent("this worker is stopping"))
        self.is_silent = True
        self._socket.close()

    # ── sending ──────────────────────────────────────────────────────────────────────────────────

    def _send(self, frame: _Frame) -> None:
        self._queue(_encode(frame))

    def _queue(self, frame: bytes) -> None:
        self._outgoing.append(frame)
        if not self._is_flushing:
            self._is_flushing = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        """Send what is queued: as few packets as possible, none while the sibling does not read."""
        outgoing = self._outgoing
        while outgoing and not self._is_full:
            frames = [outgoing.popleft()]
            size = len(frames[0])
            while outgoing and size + len(outgoing[0]) <= MAX_PACKET:
                frames.append(outgoing.popleft())
                size += len(frames[-1])
            try:
                self._socket.send(_packet(frames))
            except BlockingIOError:
                outgoing.extendleft(reversed(frames))
                self._is_full = True
                self._loop.add_writer(self._socket, self._on_writable)
            except OSError:  # it is gone with the supervisor, and this worker is about to stop
                outgoing.clear()
        self._is_flushing = self._is_full

    def _on_writable(self) -> None:
        self._loop.remove_writer(self._socket)
        self._is_full = False
        self._flush()

    # ── receiving ────────────────────────────────────────────────────────────────────────────────

    def _on_readable(self) -> None:
        """Carry out a packet: nearly always there is no other. But connections come many at a time,
        each in a packet of its own, so several are taken over.
        """
        for _ in range(CONNECTIONS_PER_TURN):
            if not (self._receive() and self._has_taken_over):
                return

    def _receive(self) -> bool:
        """Carry out one packet; False if there is none."""
        self._has_taken_over = False
        try:
            size, ancillary, _, _ = self._socket.recvmsg_into([self._buffer], _ONE_DESCRIPTOR)
        except BlockingIOError:
            return False
        except ConnectionResetError:  # it was killed, and had not read all that was sent
            size, ancillary = 0, []
        if not size:  # it is gone with its supervisor, which is ours or that of another version
            self._loop.remove_reader(self._socket)
            self._on_ended()
            return False
        self._heard_at = self._now()
        sockets = _sockets(ancillary) if ancillary else []
        try:
            frames = _decode(memoryview(self._buffer)[:size])
            is_known = not self.is_silent or self._are_known(frames)
        except msgspec.DecodeError:
            is_known = False
        if not is_known:
            self._ignore_other_version(sockets)
            return True
        if self.is_silent:
            self.is_silent, self.was_heard, self.is_foreign = False, True, False
            self._is_known.set()
            self._ended.clear()
        for frame in frames:
            if isinstance(frame, _Call):
                self._carry_out(frame)
            elif isinstance(frame, _Answer):
                self._on_answer(frame)
            elif isinstance(frame, _Connection):
                self._take_over(frame, sockets)
            elif isinstance(frame, _TooLate):
                self._fail_call(frame.number)
            elif isinstance(frame, _Ping):
                self._send(_Pong(FRAMES))
            elif isinstance(frame, _Started):
                self._fail(SiblingRestarted("it was restarted"))
                self._send(_Pong(FRAMES))  # it may have dropped our `_Started`
            elif isinstance(frame, _Ended):
                self._on_ended()
        return True

    def _are_known(self, frames: Sequence[_Frame]) -> bool:
        """Whether they are of a version with `FRAMES`, which the first one says."""
        for frame in frames:
            if isinstance(frame, _Started | _Pong):
                return frame.frames == FRAMES
        return not self.is_foreign

    def _ignore_other_version(self, sockets: Sequence[socket.socket]) -> None:
        """Each is for the other as if it had ended. If it fails, another version may follow.

        `sockets`: those that came with a packet.
        """
        for sock in sockets:
            sock.close()
        if not self.is_foreign:
            self.is_foreign = True
            self._outgoing.clear()  # it would misread them
            report_ended(self._socket)
            self._on_ended()

    def _on_ended(self) -> None:
        self.is_silent, self.was_heard = True, False
        self._is_known.set()
        self._ended.set()
        self._fail(SiblingRestarted("it has ended"))

    def _take_over(self, connection: _Connection, sockets: list[socket.socket]) -> None:
        """`sockets`: none if this process has no free descriptor."""
        self._has_taken_over = True
        if not sockets:
            self._answer(connection.number, Adoption.REFUSED)
        elif self._heard_at > connection.expires:
            sockets.pop().close()
            self._send(_TooLate(connection.number))
        else:
            self._answer(connection.number, self._adopt(sockets.pop(), connection.state))

    def _carry_out(self, call: _Call) -> None:
        entry = self._ports.get(call.port)
        if entry is None:
            return  # it has failed on the other side
        if self._heard_at > call.expires:
            self._send(_TooLate(call.number))  # it has failed there, or is about to
            return
        port, answer = entry
        try:
            asked = port.decode_asked(call.asked)
        except msgspec.ValidationError:  # of a version that asks something else
            self._send(_TooLate(call.number))
            return
        answered = answer(asked)
        if not asyncio.iscoroutine(answered):
            self._answer(call.number, answered)
            return
        task = self._loop.create_task(self._answer_later(call.number, answered))
        self._answering.add(task)
        task.add_done_callback(self._answering.discard)

    async def _answer_later(self, number: int, answered: Coroutine[Any, Any, Any]) -> None:
        self._answer(number, await answered)

    def _answer(self, number: int, answered: Any) -> None:
        self._send(_Answer(number, answered))

    def _on_answer(self, answer: _Answer) -> None:
        future, port = self._waiting.pop(answer.number, (None, _CONNECTIONS))
        if future is None or future.done():
            return
        try:
            future.set_result(port.decode_answered(answer.answered))
        except msgspec.ValidationError:  # of a version that answers something else
            future.set_exception(SiblingSilent("its answer is not understood"))

    def _fail_call(self, number: int) -> None:
        future, _ = self._waiting.pop(number, (None, None))
        if future is not None and not future.done():
            future.set_exception(SiblingSilent("it did not answer in time"))

    # ── silence ──────────────────────────────────────────────────────────────────────────────────

    def _check_later(self, now: float) -> None:
        self._patience.measure()
        self._check = self._wheel.after(self._interval, self._check_silence)
        self._check_due = now + 2 * self._interval

    def _check_silence(self) -> None:
        self._check = None
        if not self._waiting and not self.is_silent:
            return
        now = self._now()
        if now > self._check_due + self._interval:
            self._heard_at = now  # it was this worker that stood still
        if now - self._heard_at > self._patience.seconds and not self.is_silent:
            self.is_silent = True
            self._fail(SiblingSilent("it does not answer"))
        if now - self._heard_at >= self._interval and not self._outgoing:
            self._send(_Ping())
        self._check_later(now)

    def _fail(self, error: SiblingError) -> None:
        waiting, self._waiting = self._waiting, {}
        for future, _ in waiting.values():
            if not future.done():
                future.set_exception(error)


_Ports = Mapping[str, tuple[Port[Any, Any], PortHandler]]


async def _wait_for(event: asyncio.Event, seconds: float) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()


def _sockets(ancillary: Sequence[tuple[int, int, bytes]]) -> list[socket.socket]:
    """Those that came with a packet."""
    rights = array.array("i")
    for _, _, descriptors in ancillary:
        rights.frombytes(descriptors)
    return [socket.socket(fileno=descriptor) for descriptor in rights]


def _packet(frames: Sequence[bytes]) -> bytes:
    """An array of frames in MessagePack."""
    return b"\xdc" + len(frames).to_bytes(2, "big") + b"".join(frames)


def _refuse(sock: socket.socket, _state: bytes) -> Adoption:
    sock.close()
    return Adoption.REFUSED
