"""What connections share: input in time slices, pauses, and an end that arrives.

Rule: no flag here is a slot of its own: an idle connection has one integer for all of its state.
"""

import asyncio
from typing import Final

YIELDED: Final = 1
"""A bit of `_state`: `_on_next_turn` is scheduled."""
SOCKET_PAUSED: Final = 2
"""A bit of `_state`: the socket is not read."""
FIRST_OWN_BIT: Final = 4
"""The lowest bit of `_state` that subclasses use."""

LINGER_SECONDS: Final = 2.0
"""How long a peer may take to read what was sent last."""


class SlicedInput(asyncio.Protocol):
    """Handles input until its `Budget` is used up, and the rest in the next turn of the loop."""

    __slots__ = ("_state",)

    def __init__(self) -> None:
        self._state = 0

    def _on_next_turn(self) -> None:
        """Clears `YIELDED`, and goes on with the input that was kept."""
        raise NotImplementedError

    def _yield_to(self, loop: asyncio.AbstractEventLoop) -> None:
        """Let other connections be served before the rest of the input is handled."""
        if not self._state & YIELDED:
            self._state |= YIELDED
            loop.call_soon(self._on_next_turn)

    def _pause_socket(self, transport: asyncio.Transport) -> None:
        if not self._state & SOCKET_PAUSED:
            self._state |= SOCKET_PAUSED
            transport.pause_reading()

    def _resume_socket(self, transport: asyncio.Transport) -> None:
        if self._state & SOCKET_PAUSED:
            self._state &= ~SOCKET_PAUSED
            transport.resume_reading()

    def _end_output(self, transport: asyncio.Transport) -> bool:
        """Close only our side, once all is sent; False with TLS, which has no such thing.

        Input is read on, to be dropped: closing a socket with unread input resets it, and the reset
        may overtake what was sent (RFC 9112 section 9.6, RFC 6455 section 7.1.1).
        """
        has_halves = transport.can_write_eof()
        if has_halves:
            transport.write_eof()
        self._resume_socket(transport)
        return has_halves
