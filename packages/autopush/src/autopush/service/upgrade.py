"""The start of an upgrade: a running service starts its next version beside it and passes the
listening sockets. `hand_over` has what follows in the workers.

    this version  ── fork and exec, with descriptors and their purposes in `INHERITED` ──▶  next
                  ◀── b"ready" on a pipe, or the end of it ──

Rule: until the next version is ready, this one serves as if nothing had happened. From then on it
accepts no connections, and ends when it has none; but if the main process of the next version
fails before that, this one serves again.
"""

import asyncio
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from autopush.net.siblings import report_ended
from autopush.service.listeners import Sockets, close, open_inherited
from autopush.service.sharing import StoreSharing
from autopush.settings import StartupError
from autopush.telemetry import logs

INHERITED: Final = "INHERITED_BY_AUTOPUSH"
"""Variable of a process that an upgrade has started: an `_Inheritance` in JSON."""
PROGRAM: Final = "PROGRAM_OF_AUTOPUSH"
"""Variable with the path of the one file that this process was unpacked from."""
START_TIMEOUT: Final = 60.0
"""Seconds until the next version must be ready."""
EXIT_TIMEOUT: Final = 1.0
"""Seconds to wait for the process to exit after its pipe closes."""

_READY: Final = b"ready"

_log = logs.get(__name__)


class _Inheritance(msgspec.Struct, frozen=True):
    """`pid`, `reading_end`: of the process that has started this one, and there of its pipe.
    `listeners`: of each worker, the descriptors of its sockets by purpose. `siblings`: of each, the
    descriptor of its socket to its predecessor; `instances`: the end of the predecessor's node ID.
    `sharing`: the descriptor of its `StoreSharing`. `managed`: the purposes of those listeners that
    are of the service manager.
    """

    pid: int
    reading_end: int
    ready_pipe: int
    listeners: list[dict[str, int]]
    siblings: list[int] = []
    instances: list[str] = []
    sharing: int | None = None
    managed: list[str] = []


class Predecessor:
    """The version that has started this one; without an upgrade there is none, and no sockets."""

    def __init__(self, environment: MutableMapping[str, str] = os.environ) -> None:
        """:raises StartupError: what it says is malformed"""
        self.listeners: list[Sockets] = []
        self.siblings: list[socket.socket] = []
        self.instances: list[str] = []
        self.sharing: StoreSharing | None = None
        self.managed: list[str] = []
        self._ready_pipe: int | None = None
        text = environment.pop(INHERITED, None)
        if text is None:
            return
        try:
            inheritance = msgspec.json.decode(text, type=_Inheritance)
            self.listeners = [open_inherited(each) for each in inheritance.listeners]
            named = {str(number): each for number, each in enumerate(inheritance.siblings)}
            self.siblings = list(open_inherited(named).values())
            os.set_inheritable(inheritance.ready_pipe, False)
            if inheritance.sharing is not None:
                os.set_inheritable(inheritance.sharing, False)
                self.sharing = StoreSharing(inheritance.sharing)
        except (msgspec.MsgspecError, OSError) as error:
            raise StartupError(f"{INHERITED}: {error}") from None
        self.instances = inheritance.instances
        self.managed = inheritance.managed
        self._ready_pipe = inheritance.ready_pipe

    def close_unused(self, used: Sequence[Sockets]) -> None:
        kept = {sock for sockets in used for sock in sockets.values()}
        for sockets in self.listeners:
            close({name: sock for name, sock in sockets.items() if sock not in kept})

    def report_ready(self) -> None:
        """It accepts no more connections from now on."""
        pipe, self._ready_pipe = self._ready_pipe, None
        if pipe is not None:
            with suppress(BrokenPipeError):  # it has ended
                os.write(pipe, _READY)
            os.close(pipe)


def own_command(variables: Mapping[str, str] = os.environ) -> list[str]:
    """What starts the version that is installed now, as this process was started."""
    if program := variables.get(PROGRAM):
        return [program, *sys.argv[1:]]
    return [sys.executable, *sys.orig_argv[1:]]


class ServiceUpgrade:
    """The start of the next version, one at a time. Times are monotonic.

    `on_ready`: called with the process id of the next version. `on_failed`: called when it has
    failed after that, and this version is to serve again. `successors`, `instances`: of each
    worker, for the worker that takes its place, see `ServiceContext`.
    """

    def __init__(
        self,
        listeners: Sequence[Sockets],
        on_ready: Callable[[int], None],
        on_failed: Callable[[], None] = lambda: None,
        *,
        successors: Sequence[socket.socket] = (),
        instances: Sequence[str] = (),
        sharing: StoreSharing | None = None,
        managed: Sequence[str] = (),
        command: Sequence[str] | None = None,
        timeout: float = START_TIMEOUT,
    ) -> None:
        self._listeners = listeners
        self._on_ready, self._on_failed = on_ready, on_failed
        self._successors = successors
        self._instances = instances
        self._sharing = sharing
        self._managed = managed
        self._command = command or own_command()
        self._timeout = timeout
        self._process: subprocess.Popen[bytes] | None = None
        self.pipe: int | None = None
        """Readable when the next version is ready or has ended; None while none is starting."""
        self.due: float | None = None
        """When to call `conclude` at the latest."""
        self.successor: int | None = None
        """Readable when the main process of a next version that was ready has ended, see
        `take_back`; None before, and where the system cannot tell.
        """

    def begin(self, now: float) -> None:
        """Start the next version, unless that is impossible, which is logged."""
        if self._process is not None:
            _log.warning("An upgrade is under way already")
            return
        if os.getpid() == 1:
            _log.error("No upgrade: the end of process 1 would end its container")
            return
        listeners = [
            {name: sock.fileno() for name, sock in each.items()} for each in self._listeners
        ]
        reader, writer = os.pipe()
        siblings = [sock.fileno() for sock in self._successors]
        sharing = None if self._sharing is None else self._sharing.descriptor
        inheritance = _Inheritance(
            os.getpid(),
            reader,
            writer,
            listeners,
            siblings,
            list(self._instances),
            sharing,
            list(self._managed),
        )
        shared = [] if sharing is None else [sharing]
        environment = os.environ | {INHERITED: msgspec.json.encode(inheritance).decode()}
        environment.pop("WATCHDOG_PID", None)  # systemd is told who the main process is
        descriptors = {each for numbers in listeners for each in numbers.values()}
        try:
            self._process = subprocess.Popen(  # noqa: S603 - as this process was started
                self._command, pass_fds=[writer, *descriptors, *siblings, *shared], env=environment
            )
        except OSError as error:
            os.close(reader)
            _log.error("No upgrade: the next version cannot be started", reason=error.strerror)
            return
        finally:
            os.close(writer)
        self.pipe, self.due = reader, now + self._timeout
        _log.info("Upgrade: the next version is starting", next_pid=self._process.pid)

    def begin_on(
        self, loop: asyncio.AbstractEventLoop, then: Callable[[], None], failed: Callable[[], None]
    ) -> None:
        """As `begin`; calls `then` when the next version is ready, and `failed` if it fails after
        that: this version is to serve again.
        """
        is_first = self._process is None
        self.begin(loop.time())
        pipe, due = self.pipe, self.due
        if not is_first or pipe is None or due is None:
            return

        def conclude() -> None:
            loop.remove_reader(pipe)
            timer.cancel()
            if self.conclude():
                then()
                if self.successor is not None:
                    loop.add_reader(self.successor, take_back, self.successor)

        def take_back(successor: int) -> None:
            loop.remove_reader(successor)
            if self.take_back():
                failed()

        loop.add_reader(pipe, conclude)
        timer = loop.call_at(due, conclude)

    def conclude(self) -> bool:
        """Whether the next version is ready. If not, it is killed, which is logged."""
        process, pipe = self._process, self.pipe
        if process is None or pipe is None:
            return False
        os.set_blocking(pipe, False)
        try:
            is_ready = os.read(pipe, len(_READY)) == _READY
        except BlockingIOError:
            is_ready, cause = False, f"not ready after {self._timeout:g} s"
        else:
            if not is_ready:
                with suppress(subprocess.TimeoutExpired):
                    process.wait(EXIT_TIMEOUT)
                cause = _cause_of_end(process.returncode)
        if is_ready:
            with suppress(OSError):  # the kernel has none, or there is no descriptor left
                self.successor = os.pidfd_open(process.pid)
            self._close_pipe(pipe)
            for sock in self._successors:  # only the next version is at their ends from now on
                sock.close()
            _log.info("Upgrade: the next version is ready", next_pid=process.pid)
            self._on_ready(process.pid)
            return True
        self.cancel()
        _log.error("The upgrade failed; this version goes on", next_pid=process.pid, cause=cause)
        return False

    def take_back(self) -> bool:
        """Whether this version has to serve again, as the main process of the next one has failed.
        If that was stopped, exit code 0, the service is to end. To be called when `successor` is
        readable.
        """
        self._forget_successor()
        process = self._process
        if process is None:
            return False
        code = process.wait()
        if code == 0:
            return False
        self._process = None
        _log.error(
            "The next version has failed; this version serves again",
            next_pid=process.pid,
            cause=_cause_of_end(code),
        )
        self._on_failed()
        return True

    def close(self) -> None:
        """End as this version does: kill a next one that is not ready, leave one that is."""
        self.cancel()
        self._forget_successor()
        if self._process is not None:
            self._process.returncode = 0  # it outlives this process: nobody here waits for it

    def _forget_successor(self) -> None:
        if self.successor is not None:
            os.close(self.successor)
            self.successor = None

    def cancel(self) -> None:
        """Kill a next version that is not ready."""
        process, pipe = self._process, self.pipe
        if process is None or pipe is None:
            return
        process.kill()
        with suppress(subprocess.TimeoutExpired):
            process.wait(EXIT_TIMEOUT)
        self._process = None
        for sock in self._successors:
            report_ended(sock)
        # Last: when the pipe is gone, `NextVersion.runs` must be right.
        self._close_pipe(pipe)

    def _close_pipe(self, pipe: int) -> None:
        self.pipe = self.due = None
        os.close(pipe)


class NextVersion(NamedTuple):
    """As another process sees it."""

    pid: int
    pipe: Path
    """In the process that has started it, while it is not decided whether it is ready."""
    target: str
    """Where `pipe` leads then."""

    @property
    def is_decided(self) -> bool:
        return _target(self.pipe) != self.target

    @property
    def runs(self) -> bool:
        """Whether it exists; one that failed does not once that is decided."""
        with suppress(OSError):
            state = Path(f"/proc/{self.pid}/stat").read_text().rpartition(") ")[2][0]
            return state != "Z"
        return False


def find_next_version(pid: int) -> NextVersion | None:
    """The next version that the main process of a service has started."""
    with suppress(OSError):
        for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
            variables = Path(f"/proc/{child}/environ").read_bytes().split(b"\0")
            for variable in variables:
                name, _, text = variable.partition(b"=")
                if name != INHERITED.encode():
                    continue
                inheritance = msgspec.json.decode(text, type=_Inheritance)
                if inheritance.pid == pid:  # else a worker of a version that an upgrade started
                    pipe = Path(f"/proc/{pid}/fd/{inheritance.reading_end}")
                    return NextVersion(int(child), pipe, _target(pipe))
    return None


def _target(link: Path) -> str:
    with suppress(OSError):
        return os.readlink(link)
    return ""


def _cause_of_end(code: int | None) -> str:
    if code is None:
        return "it does not end"
    return f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
