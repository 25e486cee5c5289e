"""A timer wheel: the timeouts of any number of connections behind one timer of the event loop.

The rule it keeps: setting and cancelling a timeout cost the same however many are pending, and a
cancelled one leaves nothing behind. A timeout never comes early; it comes at most one tick late.

Time is cut into ticks. The timers due in one tick hang on one ring (a doubly linked list through
the timers themselves), found by the tick's number. While timers are pending the loop holds one
timer, for the next tick; when a tick finds none pending it sets no other. A tick with many timers
is called a share at a time (`turns`): until its last share is done, no later tick begins.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import TypeVarTuple

from autopush.net.turns import Share

_Args = TypeVarTuple("_Args")

_AFTER_BOUNDARY = 0.001
"""Seconds past a tick's start at which the loop wakes: libuv rounds to milliseconds, so it may
wake that much too soon, find nothing due and wake again and again."""


class _Link:
    """A place on a ring; alone it is an empty ring's head."""

    __slots__ = ("_next", "_prev")

    def __init__(self) -> None:
        self._next: _Link = self
        self._prev: _Link = self


class Timer(_Link):
    """A pending call. Made by `TimerWheel.after`."""

    __slots__ = ("_args", "_callback", "_wheel")

    def __init__(
        self, wheel: "TimerWheel | None", callback: Callable[..., object], args: tuple[object, ...]
    ) -> None:
        self._next = self._prev = self
        self._wheel = wheel
        self._callback = callback
        self._args = args

    @property
    def pending(self) -> bool:
        """Neither called nor cancelled yet."""
        return self._wheel is not None

    def cancel(self) -> None:
        """Take the call back. Without effect when it was made or cancelled before."""
        wheel = self._wheel
        if wheel is not None:
            wheel._pending -= 1
            self._detach()

    def _detach(self) -> None:
        before, after = self._prev, self._next
        before._next = after
        after._prev = before
        # No references to other timers or to the owner: each goes when its holder goes.
        self._prev = self._next = self
        self._wheel = None
        self._callback = _nothing
        self._args = ()


def _nothing() -> None:
    """What a spent timer would call."""


class TimerWheel:
    """Timeouts of `loop`, kept to within `tick` seconds.

    An exception in a callback goes to the loop's exception handler; the other timers of the same
    tick are called all the same.
    """

    __slots__ = ("_closed", "_due", "_handle", "_pending", "_reached", "_rings", "_tick", "loop")

    def __init__(self, loop: asyncio.AbstractEventLoop, tick: float = 0.25) -> None:
        if tick <= 0:
            raise ValueError(f"tick must be a positive number of seconds, not {tick!r}")
        self.loop = loop
        self._tick = tick
        self._rings: dict[int, _Link] = {}
        self._due: deque[int] = deque()  # ticks reached whose timers are being called
        self._pending = 0
        self._reached = 0  # the last tick whose timers were called, or are being called
        self._handle: asyncio.Handle | None = None
        self._closed = False

    def __len__(self) -> int:
        """How many timers are pending."""
        return self._pending

    def after(self, seconds: float, callback: Callable[[*_Args], object], *args: *_Args) -> Timer:
        """Call `callback(*args)` once, `seconds` from now or up to one tick later.

        A negative delay counts as none. The call never happens inside `after` itself. On a closed
        wheel the timer returned is spent already.
        """
        if self._closed:
            return Timer(None, _nothing, ())
        now = self.loop.time()
        if self._handle is None:
            self._reached = int(now / self._tick)
            self._arm()
        due = int((now + seconds) / self._tick) + 1
        if due <= self._reached:
            due = self._reached + 1
        ring = self._rings.get(due)
        if ring is None:
            ring = self._rings[due] = _Link()
        timer = Timer(self, callback, args)
        last = ring._prev
        timer._prev = last
        timer._next = ring
        last._next = timer
        ring._prev = timer
        self._pending += 1
        return timer

    def close(self) -> None:
        """Cancel every timer and give the loop's timer back. No call is made any more."""
        self._closed = True
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None
        for ring in self._rings.values():
            while isinstance(timer := ring._next, Timer):
                timer.cancel()
        self._rings.clear()
        self._due.clear()

    def _arm(self) -> None:
        when = (self._reached + 1) * self._tick + _AFTER_BOUNDARY
        self._handle = self.loop.call_at(when, self._turn)

    def _turn(self) -> None:
        """Call what is due, in the order of the ticks and, within one, of setting."""
        reached = int(self.loop.time() / self._tick)
        if reached - self._reached > len(self._rings):  # a long stall: fewer rings than ticks
            self._due.extend(sorted(number for number in self._rings if number <= reached))
        else:
            self._due.extend(range(self._reached + 1, reached + 1))
        self._reached = reached
        self._go_on()

    def _go_on(self) -> None:
        """Call one share of what is due; the rest after the loop has looked at its sockets."""
        due = self._due
        share = Share()
        while due:
            ring = self._rings.get(due[0])
            if ring is not None:
                while isinstance(timer := ring._next, Timer):
                    self._call(timer)
                    if self._closed:
                        return
                    if share.used_up():
                        self._handle = self.loop.call_soon(self._go_on)
                        return
                del self._rings[due[0]]
            due.popleft()
        if self._pending == 0:
            self._rings.clear()  # rings whose timers were all cancelled
            self._handle = None
        else:
            self._arm()

    def _call(self, timer: Timer) -> None:
        callback, args = timer._callback, timer._args
        timer.cancel()
        try:
            callback(*args)
        except Exception as exc:  # noqa: BLE001 - one owner's fault must not stop the others
            self.loop.call_exception_handler(
                {"message": "Exception in a timer's callback", "exception": exc}
            )
