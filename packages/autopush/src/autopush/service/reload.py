"""Reload: a running service reads its settings again, and takes those that may change meanwhile.

    main process   on SIGHUP: `Reloading.begin` reads the arguments, files and environment of the
                   start again, and checks them as a start does
    each worker    `Worker.reload`: first what may fail, then all at once
    main process   keeps the settings for workers that start later, logs, and answers the command

A single worker is the main process. Of several, each gets the settings from the main process, so
that all have the same, and replies. If the settings read cannot be used they get the present ones:
log files, certificates and credentials are read again in any case. The answer goes to an abstract
Unix socket that the command has bound under the name `answer_address`, if there is one.

Rule: logs and answers have names of options, places and reasons, and no values.
"""

import asyncio
import os
import pickle
import socket
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple, Protocol

import msgspec

from autopush.settings import OPTIONS, Settings, StartupError
from autopush.telemetry import logs

REPLY_TIMEOUT: Final = 30.0
"""Seconds in which each worker has to take the settings."""
MAX_MESSAGE: Final = 1 << 20
"""Bytes of settings that a worker takes; a socket of the system takes fewer."""
MAX_ANSWER: Final = 65_536

_log = logs.get(__name__)


class WorkerReply(NamedTuple):
    """`is_applied`: whether a worker has the new settings; `problems`: why not, or what could not
    be read again.
    """

    is_applied: bool
    problems: Sequence[str] = ()


class ReloadAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """`read_at`: monotonic time before the settings were read. `changed`, `left`: names of options
    with other values, which the service has taken, and which it takes by an upgrade.
    """

    read_at: float
    is_applied: bool
    changed: list[str] = []
    left: list[str] = []
    problems: list[str] = []

    def __str__(self) -> str:
        """A line each, for people."""
        if not self.is_applied:
            return "\n".join(("Not reloaded; the former settings stay in use:", *self.problems))
        lines = [f"Reloaded; changed: {', '.join(self.changed) or 'nothing'}"]
        if self.left:
            lines.append(f"Needs an upgrade (autopush upgrade): {', '.join(self.left)}")
        return "\n".join((*lines, *self.problems))


class SettingsChange(NamedTuple):
    """`settings`: the present ones with what `changed`."""

    settings: Settings
    changed: list[str]
    left: list[str]


def compare(present: Settings, started: Settings, read: Settings) -> SettingsChange:
    """`started`: as read at the start, where a port may be 0 that is another one now."""
    changed, left = [], []
    for option in OPTIONS:
        if present.command not in option.commands:
            continue
        name = option.name
        before, after = getattr(present, name), getattr(read, name)
        if option.reloads_between(before, after):
            changed += [name] if after != before else []
        elif after not in (before, getattr(started, name)):
            left.append(name)
    values = {name: getattr(read, name) for name in changed}
    return SettingsChange(replace(present, **values), changed, left)


@dataclass
class _Pending:
    """`refusal`: why the settings read cannot be used."""

    change: SettingsChange
    refusal: str
    read_at: float
    due: float
    awaited: set[int]
    replies: dict[int, WorkerReply]


class Reloading:
    """The reloads of a service, in its main process. `settings`: the present ones; `read`: reads
    and checks them again. `answer`: sends what became of a reload.
    """

    def __init__(
        self,
        settings: Settings,
        started: Settings,
        read: Callable[[], Settings],
        *,
        answer: Callable[[ReloadAnswer], None] | None = None,
    ) -> None:
        self.settings = settings
        self._started = started
        self._read = read
        self._answer = answer or send_answer
        self._pending: _Pending | None = None
        self._is_wanted = False

    @property
    def due(self) -> float | None:
        """When to call `expire`, on the monotonic clock; None while no reply is awaited."""
        return None if self._pending is None else self._pending.due

    @property
    def wanted(self) -> Settings | None:
        """What workers are to take at the moment."""
        return None if self._pending is None else self._pending.change.settings

    @property
    def is_wanted(self) -> bool:
        """Whether another reload was asked for while the last one had not ended."""
        return self._is_wanted and self._pending is None

    def begin(self, workers: Iterable[int], refusal: str = "") -> Settings | None:
        """What those workers are to take; None if they have not replied to the last one: then this
        one is for later. `refusal`: why there can be no other settings now.
        """
        if self._pending is not None:
            self._is_wanted = True
            return None
        self._is_wanted = False
        read_at = time.monotonic()
        change = SettingsChange(self.settings, [], [])
        if not refusal:
            try:
                change = compare(self.settings, self._started, self._read())
            except StartupError as error:
                refusal = str(error)
        due = time.monotonic() + REPLY_TIMEOUT
        self._pending = _Pending(change, refusal, read_at, due, set(workers), {})
        if not self._pending.awaited:  # they begin with these
            self._conclude(self._pending)
        return change.settings

    def expect(self, worker: int) -> None:
        """That worker has started meanwhile, and is to take `wanted` too."""
        assert self._pending is not None
        self._pending.awaited.add(worker)

    def note(self, worker: int, reply: WorkerReply | None) -> None:
        """A worker has replied, or ended; whether it was to reply or not."""
        if (pending := self._pending) is None or worker not in pending.awaited:
            return
        pending.awaited.discard(worker)
        if reply is not None:
            pending.replies[worker] = reply
        if not pending.awaited:
            self._conclude(pending)

    def expire(self, now: float) -> None:
        """End a reload to which not all workers have replied in time."""
        if (pending := self._pending) is not None and pending.due <= now:
            silent = WorkerReply(False, [f"it has not answered within {REPLY_TIMEOUT:g} seconds"])
            pending.replies |= dict.fromkeys(pending.awaited, silent)
            self._conclude(pending)

    def _conclude(self, pending: _Pending) -> None:
        self._pending = None
        replies, problems = pending.replies, list[str]()
        # What all of them say is said once.
        texts = {text: None for reply in replies.values() for text in reply.problems}
        for text in texts:
            who = [str(each) for each, reply in sorted(replies.items()) if text in reply.problems]
            is_of_all = len(who) == len(replies)
            problems.append(text if is_of_all else f"worker {', '.join(who)}: {text}")
        applied = [reply.is_applied for reply in replies.values()]
        if all(applied):
            self.settings = pending.change.settings
            logs.set_level(self.settings.effective_log_level)
        elif any(applied) and pending.change.changed:
            problems.append("the other workers have the new settings until they are restarted")
        if pending.refusal:
            problems.insert(0, pending.refusal)
        self._end(
            ReloadAnswer(
                read_at=pending.read_at,
                is_applied=all(applied) and not pending.refusal,
                changed=pending.change.changed,
                left=pending.change.left,
                problems=problems,
            )
        )

    def _end(self, outcome: ReloadAnswer) -> None:
        if outcome.is_applied:
            _log.info("Reloaded", changed=outcome.changed, needs_upgrade=outcome.left)
        for problem in outcome.problems:
            _log.error(
                "Reloaded, but not all" if outcome.is_applied else "Not reloaded", reason=problem
            )
        self._answer(outcome)


# ── In a worker ───────────────────────────────────────────────────────────────────────────────────


class TakesSettings(Protocol):
    async def reload(self, settings: Settings) -> list[str]: ...


async def take(worker: TakesSettings, settings: Settings) -> WorkerReply:
    logs.reopen()
    try:
        return WorkerReply(True, await worker.reload(settings))
    except StartupError as error:
        return WorkerReply(False, [str(error)])
    except Exception as error:  # noqa: BLE001 - the main process waits for a reply
        _log.exception("A reload failed", error=error)
        return WorkerReply(False, [f"a defect, {type(error).__name__}; its log has more"])


async def reload_at(hangup: asyncio.Event, reloading: Reloading, worker: TakesSettings) -> None:
    """Reload the only worker at each SIGHUP, until cancelled."""
    while True:
        await hangup.wait()
        hangup.clear()
        # In a thread: it reads files, and may ask for the address of a host.
        settings = await asyncio.to_thread(reloading.begin, [0])
        assert settings is not None  # as the last one has ended
        reloading.note(0, await take(worker, settings))


async def reload_from(main: socket.socket, worker: TakesSettings) -> None:
    """Take what the main process sends, until it ends or this is cancelled."""
    main.setblocking(False)
    loop = asyncio.get_running_loop()
    while message := await loop.sock_recv(main, MAX_MESSAGE):
        reply = await take(worker, pickle.loads(message))  # noqa: S301 - of the main process
        await loop.sock_sendall(main, pickle.dumps(reply))


# ── Between processes ─────────────────────────────────────────────────────────────────────────────


def message_pair() -> tuple[socket.socket, socket.socket]:
    """Of the main process, which never waits there, and of a worker; they keep messages whole."""
    own, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    own.setblocking(False)
    return own, other


def send_settings(worker: socket.socket, settings: Settings) -> WorkerReply | None:
    """A reply in place of a worker that cannot be sent them."""
    try:
        worker.send(pickle.dumps(settings))
    except OSError as error:  # it has ended, does not read, or they are too large
        return WorkerReply(False, [f"it cannot be sent the settings: {error.strerror}"])
    return None


def read_reply(worker: socket.socket) -> WorkerReply | None:
    """None if there is none, or the worker has ended."""
    try:
        message = worker.recv(MAX_MESSAGE)
    except OSError:
        return None
    return pickle.loads(message) if message else None  # noqa: S301 - of our own worker


def answer_address(pid: int) -> str:
    """Where a command waits for the answer of that main process."""
    return f"\0autopush-reload-{pid}"


def send_answer(outcome: ReloadAnswer) -> None:
    """Send it to the command that waits, if there is one."""
    problems = [text[:1000] for text in outcome.problems[:20]]
    message = msgspec.json.encode(msgspec.structs.replace(outcome, problems=problems))
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sending:
            sending.setblocking(False)
            sending.sendto(message, answer_address(os.getpid()))
    except (ConnectionRefusedError, FileNotFoundError):
        pass  # nobody waits
    except OSError as error:
        _log.warning("The answer to a reload could not be sent", reason=error.strerror)
