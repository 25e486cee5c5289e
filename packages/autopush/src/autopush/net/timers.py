"""Timeouts on an event loop, and how long one callback may keep the loop busy.

`TimerWheel` keeps the timeouts of any number of connections behind one timer of the event loop.
Setting and cancelling cost the same however many are pending, and a cancelled timeout leaves
nothing behind. A timeout never comes early; it comes at most one tick late, or `COARSE` ticks if it
is a long one.

The timers due in one tick form a ring (a list doubly linked through the timers), found by the
tick's number. While any are pending, the loop has one timer, for the first tick that has a ring. A
tick with many timers is processed in time slices (`Budget`); no later tick begins before its last
slice.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable
from typing import Final, TypeVarTuple

from autopush.clock import AFTER_BOUNDARY

_Args = TypeVarTuple("_Args")

MAX_STEPS: Final = 32
"""Frames, requests or timers in one time slice."""
MAX_SECONDS: Final = 0.0005
"""Seconds in one time slice."""
LARGE_READ: Final = 64 * 1024
"""A larger read (bytes) is processed in the next turn of the loop. libuv reads a socket up to 32
times in a row as long as it fills the buffer of 256 KiB; pausing the socket ends the row.
"""

LONG: Final = 100.0
"""Seconds from which on a timeout may come later, see `COARSE`."""
COARSE: Final = 4
"""Long timeouts, such as those of pings, fire only every `COARSE` ticks: to wake up an idle process
costs more than ten pings.
"""

_NEVER: Final = float("inf")


class Budget:
    """The time slice of one callback: `MAX_STEPS` steps or `MAX_SECONDS` seconds of `clock`.

    Rule: a callback whose budget is spent keeps the rest, stops reading its socket and
    continues by `call_soon`, after the other connections. So no client makes the others wait longer
    than one slice, or one longer step.
    """

    __slots__ = ("_clock", "_end", "_steps")

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._steps = MAX_STEPS
        self._end = clock() + MAX_SECONDS

    def spend(self) -> bool:
        """Count one step; True if it was the last of this slice."""
        self._steps -= 1
        return self._steps <= 0 or self._clock() >= self._end


class _Node:
    """A node of a ring; a single one is the head of an empty ring."""

    __slots__ = ("_next", "_prev")

    def __init__(self) -> None:
        self._next: _Node = self
        self._prev: _Node = self


class Timer(_Node):
    """A pending call, the last of its ring. Made by `TimerWheel.after`."""

    __slots__ = ("_args", "_callback", "_wheel")

    def __init__(
        self,
        wheel: "TimerWheel | None",
        ring: _Node,
        callback: Callable[..., object],
        args: tuple[object, ...],
    ) -> None:
        last = ring._prev
        self._prev = last
        self._next = ring
        last._next = ring._prev = self
        self._wheel = wheel
        self._callback = callback
        self._args = args

    @property
    def pending(self) -> bool:
        """Neither called nor cancelled yet."""
        return self._wheel is not None

    def cancel(self) -> None:
        """No effect after the call or an earlier cancel."""
        wheel = self._wheel
        if wheel is not None:
            wheel._pending -= 1
            self._unlink()

    def _unlink(self) -> None:
        before, after = self._prev, self._next
        before._next = after
        after._prev = before
        # No references to other timers or to the owner: each is freed with its last user.
        self._prev = self._next = self
        self._wheel = None
        self._callback = _nothing
        self._args = ()


def _nothing() -> None:
    """The callback of a timer that was called or cancelled."""


class TimerWheel:
    """Timeouts of `loop`, accurate to `tick` seconds.

    `clock` (seconds) measures time slices: unlike loop time it advances during a turn. An exception
    in a callback goes to the loop's exception handler; the other timers still run.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        tick: float = 0.25,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        if tick <= 0:
            raise ValueError(f"tick must be a positive number of seconds, not {tick!r}")
        self.loop = loop
        self.clock = clock
        self._tick = tick
        self._rings: dict[int, _Node] = {}
        self._due: deque[int] = deque()  # ticks reached whose timers are being called
        self._pending = 0
        self._reached = 0  # the last tick whose timers were called, or are being called
        self._handle: asyncio.Handle | None = None
        self._wakes_at = 0  # the tick for which `_handle` is; 0 while timers are being called
        self._closed = False

    def __len__(self) -> int:
        return self._pending

    def after(self, seconds: float, callback: Callable[[*_Args], object], *args: *_Args) -> Timer:
        """Call `callback(*args)` once, `seconds` from now or up to one tick later; `COARSE` ticks
        if that is `LONG` or longer.

        A negative delay counts as 0. The call never happens inside `after`. A closed wheel returns
        a cancelled timer.
        """
        if self._closed:
            return Timer(None, _Node(), _nothing, ())
        now = self.loop.time()
        due = int((now + seconds) / self._tick) + 1
        if seconds >= LONG:
            due += -due % COARSE
        if self._handle is None:
            self._reached = int(now / self._tick)
        if due <= self._reached:
            due = self._reached + 1
        if self._handle is None or due < self._wakes_at:
            self._wake_at(due)
        ring = self._rings.get(due)
        if ring is None:
            ring = self._rings[due] = _Node()
        self._pending += 1
        return Timer(self, ring, callback, args)

    def close(self) -> None:
        """Cancel every timer; nothing is called any more."""
        self._closed = True
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None
        for ring in self._rings.values():
            while isinstance(timer := ring._next, Timer):
                timer.cancel()
        self._rings.clear()
        self._due.clear()

    def _wake_at(self, number: int) -> None:
        """Have the loop wake at that tick, if it has a timer in place of that."""
        if self._handle is not None:
            self._handle.cancel()
        self._wakes_at = number
        self._handle = self.loop.call_at(number * self._tick + AFTER_BOUNDARY, self._on_tick)

    def _on_tick(self) -> None:
        """Call due timers by tick, and within a tick in the order they were set."""
        self._wakes_at = 0
        reached = int(self.loop.time() / self._tick)
        if reached - self._reached > len(self._rings):  # a long stall: fewer rings than ticks
            self._due.extend(sorted(number for number in self._rings if number <= reached))
        else:
            self._due.extend(range(self._reached + 1, reached + 1))
        self._reached = reached
        self._run_due()

    def _run_due(self) -> None:
        """Call due timers for one time slice; the rest after the loop has polled its sockets."""
        due = self._due
        budget: Budget | None = None
        while due:
            ring = self._rings.get(due[0])
            if ring is not None:
                if budget is None:
                    budget = Budget(self.clock)
                while isinstance(timer := ring._next, Timer):
                    self._call(timer)
                    if self._closed:
                        return
                    if budget.spend():
                        self._handle = self.loop.call_soon(self._run_due)
                        return
                del self._rings[due[0]]
            due.popleft()
        if self._pending == 0:
            self._rings.clear()  # rings whose timers were all cancelled
            self._handle = None
        else:
            number = self._reached + 1
            while number not in self._rings:  # as many steps as ticks that the loop need not wake
                number += 1
            self._wake_at(number)

    def _call(self, timer: Timer) -> None:
        callback, args = timer._callback, timer._args
        timer.cancel()
        try:
            callback(*args)
        except Exception as exc:  # noqa: BLE001 - one owner's error must not stop the others
            self.loop.call_exception_handler(
                {"message": "Exception in a timer's callback", "exception": exc}
            )


class Deadline:
    """A timeout that is set repeatedly, with one call of `callback` when it passes.

    Moving it later costs no timer: the set timer checks `due` when it fires. So while a timer is
    set, `due` (seconds, loop time) may also be moved later by assignment.
    """

    __slots__ = ("_callback", "_fires", "_timer", "_wheel", "due")

    def __init__(self, wheel: TimerWheel, callback: Callable[[], object]) -> None:
        self._wheel = wheel
        self._callback = callback
        self._timer: Timer | None = None
        self._fires = _NEVER
        self.due = _NEVER

    def set(self, seconds: float) -> None:
        """Set the deadline to `seconds` from now."""
        self.due = due = self._wheel.loop.time() + seconds
        if due < self._fires:
            if self._timer is not None:
                self._timer.cancel()
            self._fires = due
            self._timer = self._wheel.after(seconds, self._on_timer)

    def close(self) -> None:
        """Cancel it for good, and drop the reference to the callback."""
        self._callback = _nothing
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _on_timer(self) -> None:
        self._timer = None
        self._fires = _NEVER
        left = self.due - self._wheel.loop.time()
        if left > 0:
            self.set(left)
        else:
            self._callback()
