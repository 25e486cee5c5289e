"""A WebSocket connection that writes down what happens to it, and its surroundings for tests."""

from collections.abc import Callable

from autopush.net.frames import FrameReader
from autopush.net.timers import TimerWheel
from autopush.net.websocket import WebSocketProtocol
from support.fake_loop import FakeLoop
from support.fake_transport import FakeTransport
from support.referents import held_by

Event = tuple[object, ...]


class Recorder(WebSocketProtocol):
    """`on_text`, when given, is called for each message after it is written down."""

    def __init__(self, wheel: TimerWheel) -> None:
        super().__init__(wheel)
        self.events: list[Event] = []
        self.on_text: Callable[[bytes], None] | None = None
        self.on_binary: Callable[[], None] | None = None

    def text_received(self, payload: bytes) -> None:
        assert type(payload) is bytes
        self.events.append(("text", payload))
        if self.on_text is not None:
            self.on_text(payload)

    def binary_received(self) -> None:
        self.events.append(("binary",))
        if self.on_binary is not None:
            self.on_binary()

    def pong_received(self, payload: bytes) -> None:
        self.events.append(("pong", payload))

    def connection_closed(self, code: int | None, reason: str) -> None:
        self.events.append(("closed", code, reason))

    def output_paused(self) -> None:
        self.events.append(("paused",))

    def output_resumed(self) -> None:
        self.events.append(("resumed",))


class Connection:
    """A `Recorder` on a fake transport and a fake clock."""

    def __init__(self, kind: type[Recorder] = Recorder) -> None:
        self.clock = FakeLoop()
        self.wheel = TimerWheel(self.clock.loop, clock=self.clock.perf_counter)
        self.protocol = kind(self.wheel)
        self.transport = FakeTransport(self.clock, self.protocol)

    @property
    def events(self) -> list[Event]:
        return self.protocol.events

    def receive(self, *chunks: bytes) -> None:
        """Give what the socket would: nothing is read while paused or closing.

        What the protocol defers to later turns of the loop is done on return.
        """
        for chunk in chunks:
            if self.transport.reading and not self.transport.closing:
                self.protocol.data_received(chunk)
            if not self.transport.reading:
                self.run_due()

    def run_due(self, seconds: float = 0.0) -> None:
        """Advance the clock and run what is due."""
        self.clock.advance(seconds)

    def sent(self) -> bytes:
        """What was written since the last call."""
        written = bytes(self.transport.written)
        self.transport.written.clear()
        return written

    # Methods, so that a type checker does not narrow their results.

    def reading(self) -> bool:
        """The protocol has not stopped the socket."""
        return self.transport.reading

    def reader(self) -> FrameReader | None:
        """The reader of a connection in the middle of a message."""
        return next(iter(held_by(self.protocol, FrameReader)), None)

    def writable(self) -> bool:
        return self.protocol.writable

    def state(self) -> str:
        """What became of the transport: open, ended (our half is shut), closing or lost."""
        transport = self.transport
        if transport.lost:
            return "lost"
        if transport.closing:
            return "closing"
        return "ended" if transport.ended else "open"
