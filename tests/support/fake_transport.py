"""A transport without a socket: it keeps what is written, and tests play the peer."""

import asyncio

from support.fake_loop import FakeLoop


class FakeTransport(asyncio.Transport):
    """Of `protocol`. With `stuck`, nothing written leaves: the peer does not read."""

    def __init__(self, loop: FakeLoop, protocol: asyncio.Protocol) -> None:
        super().__init__()
        self.loop = loop
        self.protocol = protocol
        self.written = bytearray()
        self.writes = 0
        self.pending = 0
        self.stuck = False
        self.reading = True
        self.ended = False  # write_eof was called
        self.closing = False
        self.lost = False
        self._high = 65536
        self._paused = False
        protocol.connection_made(self)

    # --- what the peer does ---------------------------------------------------------------------

    def unstick(self) -> None:
        """The peer reads all there is, and goes on reading."""
        self.stuck = False
        self.pending = 0
        if self._paused:
            self._paused = False
            self.protocol.resume_writing()
        if self.closing:
            self._lose(None)

    def eof(self) -> None:
        assert self.reading
        assert not self.closing
        if not self.protocol.eof_received():
            self.close()

    def reset(self) -> None:
        self._lose(ConnectionResetError())

    # --- what the protocol does -----------------------------------------------------------------

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        assert high is not None
        self._high = high

    def get_write_buffer_size(self) -> int:
        return self.pending

    def write(self, data: bytes | bytearray | memoryview) -> None:
        assert not self.ended, "write after write_eof"
        assert not self.lost, "write after connection_lost"
        if self.closing:
            return
        self.written += data
        self.writes += 1
        if self.stuck:
            self.pending += len(data)
            if self.pending > self._high and not self._paused:
                self._paused = True
                self.protocol.pause_writing()

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        self.ended = True

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        assert not self.lost
        self.reading = True

    def is_closing(self) -> bool:
        return self.closing

    def close(self) -> None:
        if not self.closing:
            self.closing = True
            if not self.pending:
                self._lose(None)

    def abort(self) -> None:
        self.closing = True
        self._lose(None)

    def _lose(self, exc: Exception | None) -> None:
        self.closing = True
        self.loop.call_soon(self._lost, exc)

    def _lost(self, exc: Exception | None) -> None:
        if not self.lost:
            self.lost = True
            self.protocol.connection_lost(exc)
