"""An event loop in virtual time, whose workers can be stopped and killed like processes.

Time passes only when nothing is left to do, and then to the next timer. What a worker does runs in
its own context; so the loop knows whose callback, timer or socket it is.

Rule: what waits is a timer or a socket pair of this process; then one seed gives one run.
"""

import asyncio
import heapq
import select
import selectors
import socket
from collections import deque
from collections.abc import Callable, Iterable
from contextvars import Context, ContextVar, copy_context
from typing import Any, TypeVarTuple

_Args = TypeVarTuple("_Args")

Process = object
"""Stands for the process of a worker, from its start to its end."""

_PROCESS: ContextVar[Process | None] = ContextVar("process", default=None)


class _OrderedSelector(selectors.EpollSelector):
    """Returns what is ready in the order of registration: numbers of descriptors differ by run."""

    # Of the base class; it is asked in each turn of the loop, and mostly nothing is ready.
    _selector: select.epoll
    _fd_to_key: dict[int, selectors.SelectorKey]
    _fileobj_lookup: Callable[[Any], int]

    def __init__(self) -> None:
        super().__init__()
        self._registered: dict[int, int] = {}
        self._count = 0

    def get_key(self, fileobj: Any) -> selectors.SelectorKey:
        return self._fd_to_key[self._fileobj_lookup(fileobj)]

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        key = super().register(fileobj, events, data)
        self._count += 1
        self._registered[key.fd] = self._count
        return key

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        found = self._selector.poll(timeout, len(self._fd_to_key) or 1)
        if len(found) > 1:
            found.sort(key=lambda each: self._registered[each[0]])
        ready = []
        for fd, event in found:
            key = self._fd_to_key[fd]
            events = selectors.EVENT_WRITE if event & ~select.EPOLLIN else 0
            events |= selectors.EVENT_READ if event & ~select.EPOLLOUT else 0
            ready.append((key, events & key.events))
        return ready


class VirtualLoop(asyncio.SelectorEventLoop):
    # Of the base class, which is written to be extended in this way by its own subclasses only.
    _selector: selectors.BaseSelector
    _ready: deque[asyncio.Handle]
    _transports: dict[int, asyncio.Transport]
    _process_events: Any

    def __init__(self) -> None:
        super().__init__(_OrderedSelector())
        self.now = 1000.0
        self.errors: list[dict[str, Any]] = []
        """What went to the exception handler."""
        self._timers: list[tuple[float, int, asyncio.TimerHandle]] = []
        self._timer_count = 0
        self._stopped: dict[Process, deque[asyncio.Handle]] = {}
        self._parked: dict[Process, list[selectors.SelectorKey]] = {}
        self._dead: set[Process] = set()
        self.set_exception_handler(self._on_error)

    def time(self) -> float:
        return self.now

    def call_soon(
        self, callback: Callable[[*_Args], object], *args: *_Args, context: Context | None = None
    ) -> asyncio.Handle:
        handle = asyncio.Handle(callback, args, self, context)
        self._ready.append(handle)
        return handle

    def call_at(
        self,
        when: float,
        callback: Callable[[*_Args], object],
        *args: *_Args,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        timer = asyncio.TimerHandle(when, callback, args, self, context)
        self._timer_count += 1
        heapq.heappush(self._timers, (when, self._timer_count, timer))
        return timer

    # ── processes ────────────────────────────────────────────────────────────────────────────────

    def running_process(self) -> Process | None:
        return _PROCESS.get()

    def new_process(self) -> tuple[Process, Context]:
        process, context = object(), copy_context()
        context.run(_PROCESS.set, process)
        return process, context

    def stop_process(self, process: Process) -> None:
        """Nothing of it happens until `continue_process`; its sockets fill."""
        self._stopped[process] = deque()
        self._parked[process] = self._sockets_of(process)
        for key in self._parked[process]:
            self._selector.unregister(key.fileobj)

    def continue_process(self, process: Process) -> None:
        for key in self._parked.pop(process):
            self._selector.register(key.fileobj, key.events, key.data)
        self._ready.extend(self._stopped.pop(process))

    def kill_process(self, process: Process, sockets: Iterable[socket.socket]) -> None:
        """Nothing of it happens any more. `sockets`: all that it has, which are closed."""
        self._stopped.pop(process, None)
        if self._parked.pop(process, None) is None:
            for key in self._sockets_of(process):
                self._selector.unregister(key.fileobj)
        self._dead.add(process)
        for sock in sockets:
            self._transports.pop(sock.fileno(), None)
            sock.close()

    def _sockets_of(self, process: Process) -> list[selectors.SelectorKey]:
        return [
            key
            for key in list(self._selector.get_map().values())
            if any(handle and _process_of(handle) is process for handle in key.data)
        ]

    # ── running ──────────────────────────────────────────────────────────────────────────────────

    def _run_once(self) -> None:
        if events := self._selector.select(0):
            self._process_events(events)
        ready, timers = self._ready, self._timers
        if not ready:
            while timers and timers[0][2].cancelled():
                heapq.heappop(timers)
            if timers:
                self.now = max(self.now, timers[0][0])
        while timers and timers[0][0] <= self.now:
            ready.append(heapq.heappop(timers)[2])
        for _ in range(len(ready)):
            handle = ready.popleft()
            if handle.cancelled():
                continue
            if not (self._dead or self._stopped):
                handle._run()
                continue
            process = _process_of(handle)
            if process in self._dead:
                continue
            stopped = self._stopped.get(process) if process is not None else None
            if stopped is None:
                handle._run()
            else:
                stopped.append(handle)

    def _on_error(self, _: object, context: dict[str, Any]) -> None:
        if "was destroyed but it is pending" not in context["message"]:  # of a killed process
            self.errors.append(context)


def _process_of(handle: asyncio.Handle) -> Process | None:
    context: Context = handle._context  # type: ignore[attr-defined]
    return context.get(_PROCESS)
