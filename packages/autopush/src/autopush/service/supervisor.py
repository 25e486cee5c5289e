"""Keeps worker processes running: restarts ended ones, kills frozen ones, notifies systemd.

Rule: the parent has no threads, no event loop and no state of the service, and sleeps until a
signal, a worker or a restart is due.
"""

import multiprocessing
import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import KW_ONLY, dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkProcess
from typing import Final

from autopush.service.reload import Reloading, message_pair, read_reply, send_settings
from autopush.service.systemd import ServiceManager
from autopush.service.upgrade import ServiceUpgrade
from autopush.settings import STARTUP_FAILED, Settings
from autopush.telemetry import logs
from keytables.retries import Backoff

HEALTHY_AFTER: Final = 5.0
"""Seconds after which the end of a worker is no failed start."""
GRACE_PERIOD: Final = 30.0
"""Seconds that workers have to stop before they are killed."""
RESTART_DELAYS: Final = Backoff(0.1, 5.0, jitter=0.0)
"""From the second failure in a row; after the first there is no delay."""
CONFIRM_AFTER: Final = 1.0
"""Seconds from the check that finds a worker silent to the one that decides."""

_STOP_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)
_SIGNALS: Final = (*_STOP_SIGNALS, signal.SIGHUP, signal.SIGUSR2)
# Not the default of newer Pythons: workers inherit the listening sockets and all that was read.
_FORK: Final = multiprocessing.get_context("fork")

_log = logs.get(__name__)


@dataclass(frozen=True, slots=True)
class WorkerSlot:
    index: int
    """0 … workers - 1; a restarted worker keeps its index."""
    parent_pipe: int
    """File descriptor that reads end of file when the parent is gone."""
    ready_pipe: Connection
    messages: socket.socket
    """To the parent, see `reload_from`."""
    has_reloaded: bool = False
    """Whether there was a reload since the parent has read the certificates."""

    def report_ready(self) -> None:
        with suppress(BrokenPipeError):  # the parent is gone, as `parent_pipe` shows too
            self.ready_pipe.send_bytes(b"ready")


@dataclass(slots=True)
class Restarts:
    at: float | None = 0.0
    """When to start the worker, on the monotonic clock; None while it runs."""
    failures: int = 0
    """Consecutive ones, each soon after the start."""

    def schedule(self, now: float, uptime: float = 0.0) -> float:
        """Plan the next start; returns the delay in seconds."""
        if uptime >= HEALTHY_AFTER:
            self.failures = 0
        delay = RESTART_DELAYS.delay(self.failures) if self.failures else 0.0
        self.failures += 1
        self.at = now + delay
        return delay

    def schedule_after(self, started: float) -> dict[str, float]:
        """Plan the next start of one that has ended; returns its uptime and the delay."""
        now = time.monotonic()
        return {"uptime": round(now - started, 3), "delay": self.schedule(now, now - started)}


class Watchdog:
    """Finds frozen workers: one may hold the store's write lock, on which all others wait.

    A worker must be silent at two checks, the second of them on time: if the supervisor did not run
    either, the whole machine was suspended.

    `timeout`: seconds of silence, 0 to disable; `heartbeats`: when the event loop of each worker
    last ran, by index. All times are monotonic.
    """

    def __init__(self, timeout: float, heartbeats: Callable[[], Sequence[float]]) -> None:
        self._timeout = timeout
        self._heartbeats = heartbeats
        self._suspects: dict[int, float] = {}
        self.due: float | None = None
        """When to check again; None while nothing is watched."""

    def frozen(self, ready: dict[int, float], now: float) -> dict[int, float]:
        """The workers to kill, with seconds of silence. `ready`: those to watch, and since when
        ready.
        """
        was_late = self.due is not None and now - self.due >= CONFIRM_AFTER
        if not (self._timeout and ready):
            self.due = None
            return {}
        frozen = {}
        heartbeats = self._heartbeats()
        self._suspects = {each: at for each, at in self._suspects.items() if each in ready}
        dues = []
        for index, since in ready.items():
            last = max(heartbeats[index], since)
            if now - last < self._timeout:
                self._suspects.pop(index, None)
                dues.append(last + self._timeout)
                continue
            if was_late or index not in self._suspects:
                self._suspects[index] = now + CONFIRM_AFTER
            if now < self._suspects[index]:
                dues.append(self._suspects[index])
            else:
                del self._suspects[index]
                frozen[index] = now - last
        self.due = min(dues, default=None)
        return frozen


class _WorkerProcess:
    """A worker's index and its current process."""

    def __init__(self, index: int) -> None:
        self.index = index
        self.process: ForkProcess | None = None
        self.started = 0.0
        self.ready_pipe: Connection | None = None
        self.messages: socket.socket | None = None
        self.is_ready = False
        self.ready_at = 0.0
        self.is_replaced = False
        """Whether it was told to end, so that another one takes its place."""
        self.restarts = Restarts()


class Companion:
    """A process beside the workers. `run` gets the descriptor that reads end of file when the
    parent is gone, and returns the exit code. It ends at SIGUSR2 too, and has SIGHUP passed on.
    """

    def __init__(self, name: str, run: Callable[[int], int]) -> None:
        self.name, self.run = name, run
        self.process: ForkProcess | None = None
        self.started = 0.0
        self.restarts = Restarts()


@dataclass(eq=False)
class Supervisor:
    """Runs `count` processes of `run_worker`. Make it before any thread or event loop exists.

    `run_worker` runs in the child, with SIGTERM at its default and SIGINT ignored, and returns the
    exit code. `on_ready` is called once, when all workers are ready; `on_ended` with the index of
    each worker that has ended. A worker that `watchdog` finds frozen is killed and restarted; a
    starting one is not watched, as it may have to wait for the store. `reloading`: for SIGHUP;
    `upgrade`: for SIGUSR2; `drain`: seconds that the workers have then to end, besides the grace
    period.

    The parent holds one end of a pipe that it never writes to: however the parent ends, every
    worker reads end of file and stops.
    """

    run_worker: Callable[[WorkerSlot], int]
    count: int
    _: KW_ONLY
    on_ready: Callable[[], None]
    on_ended: Callable[[int], None] = lambda _: None
    grace_period: float = GRACE_PERIOD
    watchdog: Watchdog
    manager: ServiceManager
    reloading: Reloading
    upgrade: ServiceUpgrade
    drain: float = 0.0
    companion: Companion | None = None

    def __post_init__(self) -> None:
        self._workers = [_WorkerProcess(index) for index in range(self.count)]
        self._parent_pipe = (-1, -1)
        self._all_were_ready = False
        self._exit_code: int | None = None
        self._is_draining = False
        self._has_reloaded = False
        self._kill_at: float | None = None

    def run(self) -> int:
        """Run them until SIGTERM or SIGINT; returns the exit code.

        On SIGHUP the settings are read again and sent to the workers; reading may take a moment.
        SIGUSR2 starts the next version; once that is ready, the workers get it too, as the signal
        to end when they have no clients. Both signals are blocked in a child until `run_worker`
        unblocks them. On SIGTERM and SIGINT every worker gets SIGTERM, and SIGKILL after
        `grace_period` seconds; the result is 0. It is `STARTUP_FAILED` when a worker ends with that
        code before all were ready; then the others are stopped.
        """
        self._parent_pipe = os.pipe()
        try:
            with _signals() as signals:
                return self._watch(signals)
        finally:
            for descriptor in self._parent_pipe:
                os.close(descriptor)

    def _watch(self, signals: int) -> int:
        """`signals`: file descriptor that yields the numbers of received signals."""
        while True:
            now = time.monotonic()
            self.manager.report_alive(now)
            if self._exit_code is None:
                for worker in self._workers:
                    if worker.restarts.at is not None and worker.restarts.at <= now:
                        self._start(worker, now)
                self._start_companion(now)
                self._kill_frozen(now)
            elif not self._processes():
                return self._exit_code
            elif self._kill_at is not None and self._kill_at <= now:
                self._kill()
            pipes = [worker.ready_pipe for worker in self._workers if worker.ready_pipe]
            ends = [process.sentinel for process in self._processes()]
            if self.upgrade.pipe is not None:
                ends.append(self.upgrade.pipe)
            if self._is_draining and self.upgrade.successor is not None:
                ends.append(self.upgrade.successor)
            messages = [worker.messages for worker in self._workers if worker.messages]
            events = wait([signals, *pipes, *messages, *ends], self._timeout())
            # Signals first: a worker that ended by a signal sent to all is not to be restarted.
            received = _read_signals(signals)
            if not received.isdisjoint(_STOP_SIGNALS):
                self._stop(0)
            elif signal.SIGHUP in received or self.reloading.is_wanted:
                self._reload()
            elif signal.SIGUSR2 in received:
                self._begin_upgrade()
            due = self.upgrade.due
            is_over = self.upgrade.pipe in events or (due is not None and due <= time.monotonic())
            if is_over and self.upgrade.conclude():
                self._end_workers(0, signal.SIGUSR2, self.drain)
            elif (
                self._is_draining and self.upgrade.successor in events and self.upgrade.take_back()
            ):
                self._serve_again()
            for worker, process in self._running():
                if process.sentinel in events:
                    self._ended(worker, process)
                    continue
                if worker.ready_pipe in events:
                    self._read_ready(worker)
                if worker.messages in events and worker.messages is not None:
                    self.reloading.note(worker.index, read_reply(worker.messages))
            self.reloading.expire(time.monotonic())
            companion = self.companion
            if companion and companion.process and companion.process.sentinel in events:
                self._companion_ended(companion, companion.process)
            if not self._all_were_ready and all(worker.is_ready for worker in self._workers):
                self._all_were_ready = True
                if self._exit_code is None:
                    self.on_ready()
                    self.manager.report_ready(time.monotonic())

    def _running(self) -> list[tuple[_WorkerProcess, ForkProcess]]:
        return [(each, each.process) for each in self._workers if each.process is not None]

    def _processes(self) -> list[ForkProcess]:
        """All that run, with the companion's."""
        processes = [process for _, process in self._running()]
        if self.companion is not None and self.companion.process is not None:
            processes.append(self.companion.process)
        return processes

    def _send_all(self, number: signal.Signals) -> None:
        for process in self._processes():
            if process.pid is not None:
                os.kill(process.pid, number)

    def _timeout(self) -> float | None:
        if self.reloading.is_wanted:
            return 0.0
        times = [self.manager.due, self.upgrade.due, self.reloading.due]
        if self._exit_code is None:
            times += [self.watchdog.due, *(worker.restarts.at for worker in self._workers)]
            times.append(self.companion.restarts.at if self.companion else None)
        else:
            times.append(self._kill_at)
        due = [at for at in times if at is not None]
        return max(0.0, min(due) - time.monotonic()) if due else None

    def _start(self, worker: _WorkerProcess, now: float) -> None:
        reader, writer = _FORK.Pipe(duplex=False)
        messages, for_worker = message_pair()
        slot = WorkerSlot(
            worker.index, self._parent_pipe[0], writer, for_worker, self._has_reloaded
        )
        try:
            process = self._fork(lambda: self.run_worker(slot))
        except OSError as error:
            reader.close()
            messages.close()
            reason = error.strerror
            _log.error("Cannot start a worker", worker=worker.index, reason=reason)
            worker.restarts.schedule(now)
            return
        finally:
            writer.close()
            for_worker.close()
        worker.process, worker.started, worker.ready_pipe = process, now, reader
        worker.messages = messages
        worker.is_replaced, worker.restarts.at = False, None
        if (settings := self.reloading.wanted) is not None:
            self.reloading.expect(worker.index)
            self._send(worker, settings)

    def _start_companion(self, now: float) -> None:
        companion = self.companion
        if companion is None or companion.restarts.at is None or companion.restarts.at > now:
            return
        run = companion.run
        try:
            companion.process = self._fork(lambda: run(self._parent_pipe[0]))
        except OSError as error:
            _log.error(f"Cannot start the {companion.name}", reason=error.strerror)
            companion.restarts.schedule(now)
            return
        companion.started, companion.restarts.at = now, None

    def _companion_ended(self, companion: Companion, process: ForkProcess) -> None:
        code, pid = _reap(process)
        companion.process = None
        if self._exit_code is not None:
            return
        restart = companion.restarts.schedule_after(companion.started)
        if code != 0:  # else told to end for a next version, which has failed
            event = f"The {companion.name} ended and is restarted"
            _log.error(event, pid=pid, cause=_cause(code), **restart)

    def _fork(self, run: Callable[[], int]) -> ForkProcess:
        """A child that does so. :raises OSError: there is no room for it"""
        process = _FORK.Process(target=self._run_child, args=(run,))
        # A signal that comes between the fork and the child's own handlers must end the child, not
        # write into the parent's wake-up pipe, which the child still has.
        signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
        try:
            process.start()
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
        return process

    def _run_child(self, run: Callable[[], int]) -> None:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        # Ctrl-C reaches the whole group. Only the parent handles it: otherwise a worker could end,
        # and be restarted, before the parent has received the signal.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _STOP_SIGNALS)
        os.close(self._parent_pipe[1])
        for each in self._workers:
            if each.messages is not None:
                each.messages.close()
        logs.start_background()
        try:
            sys.exit(run())
        finally:
            logs.shutdown()

    def _read_ready(self, worker: _WorkerProcess) -> None:
        assert worker.ready_pipe is not None
        with suppress(EOFError):  # it ended without being ready
            worker.ready_pipe.recv_bytes()
            worker.is_ready, worker.ready_at = True, time.monotonic()
        worker.ready_pipe.close()
        worker.ready_pipe = None

    def _ended(self, worker: _WorkerProcess, process: ForkProcess) -> None:
        code, pid = _reap(process)
        worker.process, worker.is_ready = None, False
        self.on_ended(worker.index)
        if worker.ready_pipe is not None:
            worker.ready_pipe.close()
            worker.ready_pipe = None
        if worker.messages is not None:
            worker.messages.close()
            worker.messages = None
        self.reloading.note(worker.index, None)
        if self._exit_code is not None:
            return
        if code == STARTUP_FAILED and not self._all_were_ready:
            self._stop(STARTUP_FAILED)
            return
        # The signal that told it to ends one that has no handler any more, at the end of its exit.
        if worker.is_replaced and code in (0, -signal.SIGTERM):
            worker.restarts = Restarts(time.monotonic())
            return
        restart = worker.restarts.schedule_after(worker.started)
        event = "A worker ended and is restarted"
        _log.error(event, worker=worker.index, pid=pid, cause=_cause(code), **restart)

    def _kill_frozen(self, now: float) -> None:
        ready = {each.index: each.ready_at for each in self._workers if each.is_ready}
        for index, silence in self.watchdog.frozen(ready, now).items():
            worker = self._workers[index]
            assert worker.process is not None
            _log.error(
                "A worker is frozen and is killed",
                worker=index,
                pid=worker.process.pid,
                silence=round(silence, 1),
            )
            worker.is_ready = False
            worker.process.kill()

    def _reload(self) -> None:
        logs.reopen()
        self._has_reloaded = True
        if self.companion is not None and self.companion.process is not None:
            assert self.companion.process.pid is not None
            os.kill(self.companion.process.pid, signal.SIGHUP)
        ends = self._exit_code is not None
        refusal = "this process ends, or its next version serves already" if ends else ""
        running = [worker for worker, _ in self._running()]
        settings = self.reloading.begin((worker.index for worker in running), refusal)
        if settings is not None:
            for worker in running:
                self._send(worker, settings)

    def _send(self, worker: _WorkerProcess, settings: Settings) -> None:
        assert worker.messages is not None
        if (failure := send_settings(worker.messages, settings)) is not None:
            self.reloading.note(worker.index, failure)

    def _begin_upgrade(self) -> None:
        if self._exit_code is None and self._all_were_ready:
            self.upgrade.begin(time.monotonic())
        else:
            _log.warning("No upgrade: this version starts or stops at the moment")

    def _stop(self, exit_code: int) -> None:
        self.upgrade.cancel()
        if self._exit_code is None or self._is_draining:
            self._end_workers(exit_code, signal.SIGTERM)

    def _end_workers(self, exit_code: int, number: signal.Signals, drain: float = 0.0) -> None:
        self._exit_code = exit_code
        self._is_draining = number == signal.SIGUSR2
        self._kill_at = time.monotonic() + self.grace_period + drain
        self._send_all(number)

    def _serve_again(self) -> None:
        """The next version has failed. Workers that have begun to end are replaced by others."""
        self._exit_code = self._kill_at = None
        self._is_draining = False
        now = time.monotonic()
        for worker in self._workers:
            if worker.process is None:
                worker.restarts = Restarts(now)
            elif worker.process.pid is not None:
                worker.is_replaced = True
                os.kill(worker.process.pid, signal.SIGTERM)
        if self.companion is not None and self.companion.process is None:
            self.companion.restarts = Restarts(now)

    def _kill(self) -> None:
        self._kill_at = None
        for worker, process in self._running():
            _log.error("A worker did not stop in time", worker=worker.index, pid=process.pid)
            process.kill()
        if self.companion is not None and self.companion.process is not None:
            self.companion.process.kill()


def _reap(process: ForkProcess) -> tuple[int, int | None]:
    """Exit code and process id of one that has ended."""
    process.join()
    code, pid = process.exitcode or 0, process.pid
    process.close()
    return code, pid


def _cause(code: int) -> str:
    return f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"


@contextmanager
def _signals() -> Iterator[int]:
    """A file descriptor that yields the number of each received signal of `_SIGNALS`."""
    reader, writer = os.pipe()
    for descriptor in (reader, writer):
        os.set_blocking(descriptor, False)
    # The handlers do nothing; having one makes the interpreter write to the descriptor.
    handlers = {number: signal.signal(number, lambda *_: None) for number in _SIGNALS}
    wakeup = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    try:
        yield reader
    finally:
        signal.set_wakeup_fd(wakeup)
        for number, handler in handlers.items():
            signal.signal(number, handler)
        os.close(reader)
        os.close(writer)


def _read_signals(signals: int) -> set[int]:
    try:
        return set(os.read(signals, 4096))
    except BlockingIOError:
        return set()
