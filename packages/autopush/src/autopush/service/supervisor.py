"""Keeps several worker processes running.

Rule: the parent has no threads and no event loop, holds no socket and no state of the service; it
sleeps in one poll until a signal, a report of readiness or a restart is due.

A worker that dies is started again at once, and with growing delays while it keeps dying young. The
parent holds one end of a pipe that it never writes to: when the parent is gone, however it went,
every worker sees the end of that pipe and stops.
"""

import os
import select
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Final, NoReturn

from autopush.telemetry import logs

STARTUP_FAILED: Final = 3
"""Exit code of a worker that will not come up however often it is started."""

SETTLED: Final = 5.0
"""A worker that lived for so many seconds counts as healthy when it dies."""

_FIRST_DELAY: Final = 0.1
_LONGEST_DELAY: Final = 5.0
_STOP: Final = frozenset({signal.SIGTERM, signal.SIGINT})
_HANDLED: Final = (*_STOP, signal.SIGCHLD)
_REPORT_SIZE: Final = 4096  # PIPE_BUF: reports up to here do not mix

log = logs.get("supervisor")


@dataclass(frozen=True, slots=True)
class WorkerSlot:
    """What a worker is told about its place."""

    index: int
    """0 … workers - 1; a worker that is started again has the index of the one before it."""
    workers: int
    parent_pipe: int
    """File descriptor to watch: it becomes readable (end of file) when the parent is gone."""
    ready_pipe: int

    def report_ready(self, text: str = "") -> None:
        """Tell the parent that this worker serves; `text` reaches `on_ready`.

        Raises:
            ValueError: the text has several lines or more than about 4,000 bytes.
        """
        report = f"{self.index} {text}\n".encode()
        if "\n" in text or len(report) > _REPORT_SIZE:
            raise ValueError("a report of readiness is one line of at most 4,000 bytes")
        with suppress(BrokenPipeError):  # the parent is gone, which `parent_pipe` tells too
            os.write(self.ready_pipe, report)


@dataclass(slots=True)
class _Worker:
    index: int
    pid: int | None = None
    started: float = 0.0
    early_deaths: int = 0
    due: float | None = 0.0
    """When to start it, on the monotonic clock; None while it runs."""


def supervise(
    start_worker: Callable[[WorkerSlot], int],
    workers: int,
    *,
    on_ready: Callable[[Sequence[str]], None],
    grace: float = 30.0,
) -> int:
    """Run `workers` processes of `start_worker` until SIGTERM or SIGINT; returns the exit code.

    Call it in the main thread, before any other thread or event loop exists. `start_worker` runs in
    the child, with SIGTERM at its default and SIGINT ignored; what it returns is the child's exit
    code. `on_ready` is called once, with the workers' reports in order, when all have reported.

    On a signal every worker gets SIGTERM, and SIGKILL after `grace` seconds; the result is 0. It is
    3 when a worker ends with that code before the service was ready; then the others are stopped.
    """
    return _Supervisor(start_worker, workers, on_ready, grace).run()


@dataclass(slots=True)
class _Supervisor:
    start_worker: Callable[[WorkerSlot], int]
    number: int
    on_ready: Callable[[Sequence[str]], None]
    grace: float
    workers: list[_Worker] = field(default_factory=list)
    reports: dict[int, str] = field(default_factory=dict)
    partial_report: bytes = b""
    is_ready: bool = False
    kill_at: float | None = None
    exit_code: int | None = None
    wakeup: tuple[int, int] = (-1, -1)
    parent_pipe: tuple[int, int] = (-1, -1)
    ready_pipe: tuple[int, int] = (-1, -1)

    def run(self) -> int:
        self.workers = [_Worker(index) for index in range(self.number)]
        self.wakeup, self.parent_pipe, self.ready_pipe = os.pipe(), os.pipe(), os.pipe()
        for descriptor in (*self.wakeup, self.ready_pipe[0]):
            os.set_blocking(descriptor, False)
        try:
            with _signals_to(self.wakeup[1]):
                self._watch()
        finally:
            for descriptor in (*self.wakeup, *self.parent_pipe, *self.ready_pipe):
                os.close(descriptor)
        return self.exit_code or 0

    def _watch(self) -> None:
        poll = select.poll()
        poll.register(self.wakeup[0], select.POLLIN)
        poll.register(self.ready_pipe[0], select.POLLIN)
        while True:
            # Before the deaths: who dies of a signal sent to all is not to be started again.
            if _STOP & set(_drain(self.wakeup[0])):
                self._stop(0)
            # Deaths are noticed before reports are read and counted after: what a worker wrote
            # before it died is known then, and does not outlive it.
            dead = self._reap()
            self._read_reports()
            for worker, pid, status in dead:
                self._bury(worker, pid, status)
            self._announce()
            now = time.monotonic()
            if self.exit_code is None:
                self._start_due(now)
            elif not self._running():
                return
            elif self.kill_at is not None and now >= self.kill_at:
                self._kill()
            poll.poll(self._timeout())

    def _running(self) -> list[tuple[_Worker, int]]:
        return [(worker, worker.pid) for worker in self.workers if worker.pid is not None]

    def _timeout(self) -> float | None:
        """Milliseconds until something is due."""
        due = [worker.due for worker in self.workers if worker.due is not None]
        if self.exit_code is not None:
            due = [] if self.kill_at is None else [self.kill_at]
        return max(0.0, min(due) - time.monotonic()) * 1000 + 1 if due else None

    def _start_due(self, now: float) -> None:
        for worker in self.workers:
            if worker.due is not None and worker.due <= now:
                self._start(worker, now)

    def _start(self, worker: _Worker, now: float) -> None:
        slot = WorkerSlot(worker.index, self.number, self.parent_pipe[0], self.ready_pipe[1])
        _flush_output()  # or the child would write it once more
        # A signal that comes between the fork and the child's own handlers must end the child, not
        # write into the parent's wake-up pipe, which the child still has.
        signal.pthread_sigmask(signal.SIG_BLOCK, _HANDLED)
        try:
            pid = os.fork()
            if pid == 0:
                self._run_child(slot)
        except OSError as error:
            log.error("cannot start a worker", worker=worker.index, reason=error.strerror)  # noqa: TRY400
            self._delay(worker, now)
            return
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _HANDLED)
        worker.pid, worker.started, worker.due = pid, now, None

    def _run_child(self, slot: WorkerSlot) -> NoReturn:
        code = 1
        try:
            signal.set_wakeup_fd(-1)
            for number in _HANDLED:
                signal.signal(number, signal.SIG_DFL)
            # Ctrl-C reaches the whole group. It is the parent's to answer, or a worker could die
            # of it, and be started again, before the parent has heard of it.
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _HANDLED)
            for descriptor in (*self.wakeup, self.parent_pipe[1], self.ready_pipe[0]):
                os.close(descriptor)
            logs.start_background()
            code = self.start_worker(slot)
        except SystemExit as leaving:
            code = leaving.code if isinstance(leaving.code, int) else int(leaving.code is not None)
        except BaseException:  # noqa: BLE001 - the parent's frames must not see it
            traceback.print_exc()
        finally:
            # No way back into the parent's code, whatever happened.
            try:
                logs.shutdown()
                _flush_output()
            finally:
                os._exit(code)

    def _reap(self) -> list[tuple[_Worker, int, int]]:
        """The workers that died, with process id and exit code."""
        dead = []
        for worker, pid in self._running():
            # Each by its number: other children of this process are not ours to collect.
            done, status = os.waitpid(pid, os.WNOHANG)
            if done:
                worker.pid = None
                dead.append((worker, pid, os.waitstatus_to_exitcode(status)))
        return dead

    def _bury(self, worker: _Worker, pid: int, code: int) -> None:
        if self.exit_code is not None:
            return
        if not self.is_ready:
            self.reports.pop(worker.index, None)
        if code == STARTUP_FAILED and not self.is_ready:
            self._stop(STARTUP_FAILED)
            return
        now = time.monotonic()
        if now - worker.started >= SETTLED:
            worker.early_deaths = 0
        delay = self._delay(worker, now)
        cause = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
        log.error(
            "a worker died and is started again",
            worker=worker.index,
            pid=pid,
            cause=cause,
            lived=round(now - worker.started, 3),
            delay=delay,
        )

    def _delay(self, worker: _Worker, now: float) -> float:
        """Plan the next start: at once the first time, then 0.1 s, doubling up to 5 s."""
        delay = 0.0
        if worker.early_deaths:
            delay = min(_FIRST_DELAY * 2.0 ** min(worker.early_deaths - 1, 16), _LONGEST_DELAY)
        worker.early_deaths += 1
        worker.due = now + delay
        return delay

    def _stop(self, exit_code: int) -> None:
        if self.exit_code is not None:
            return
        self.exit_code = exit_code
        self.kill_at = time.monotonic() + self.grace
        for _, pid in self._running():
            os.kill(pid, signal.SIGTERM)

    def _kill(self) -> None:
        self.kill_at = None
        for worker, pid in self._running():
            log.error("a worker did not stop in time", worker=worker.index, pid=pid)
            os.kill(pid, signal.SIGKILL)

    def _read_reports(self) -> None:
        *lines, self.partial_report = (self.partial_report + _drain(self.ready_pipe[0])).split(
            b"\n"
        )
        for line in lines:
            index, _, text = line.decode().partition(" ")
            self.reports[int(index)] = text

    def _announce(self) -> None:
        if not self.is_ready and len(self.reports) == self.number and self.exit_code is None:
            self.is_ready = True
            self.on_ready([self.reports[index] for index in range(self.number)])


@contextmanager
def _signals_to(descriptor: int) -> Iterator[None]:
    """Each handled signal writes its number to the descriptor, so that none is lost."""
    # The handlers do nothing; having one makes the interpreter write to the descriptor.
    before = {number: signal.signal(number, lambda *_: None) for number in _HANDLED}
    wakeup_before = signal.set_wakeup_fd(descriptor, warn_on_full_buffer=False)
    try:
        yield
    finally:
        signal.set_wakeup_fd(wakeup_before)
        for number, handler in before.items():
            signal.signal(number, handler)


def _flush_output() -> None:
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError):
            stream.flush()


def _drain(descriptor: int) -> bytes:
    """All that a non-blocking pipe holds."""
    data = b""
    try:
        while chunk := os.read(descriptor, 65_536):
            data += chunk
    except BlockingIOError:
        pass
    return data
