"""Orders and renews the certificate, and serves port 80, in a process of its own.

    wanted by the settings ─┐
    state.json ─────────────┼─ reason_to_order ─▶ sign in ─▶ order ─▶ challenges ─▶ certificate.pem
    the clock ──────────────┘                       └───── each step is saved in state.json ─────┘

Workers see that the file has changed. A process that is killed leaves an order with which the next
one goes on; what fails is saved too, so that the workers can say it, and is tried again later.
"""

import asyncio
import fcntl
import os
import socket
from asyncio import FIRST_COMPLETED
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from autopush.acme import failures, renewal
from autopush.acme.failures import OrderFailed
from autopush.acme.files import AcmeState, CertificateFolder, PlacedOrder, facts_of
from autopush.acme.port80 import Port80, plain
from autopush.acme.renewal import SUGGESTION_TIMES, WantedCertificate, listed
from autopush.acme.sharing import SharedCertificate
from autopush.clock import Clock
from autopush.net.client_limits import ConnectionLimits
from autopush.net.http_messages import Limits, Response
from autopush.net.http_server import HttpServer
from autopush.net.timers import TimerWheel
from autopush.settings import StartupError
from autopush.telemetry import logs
from keytables import KeytablesError
from keytables.lease import LeaseLost

if TYPE_CHECKING:  # it imports the library
    from autopush.acme.directory import Directory

PAUSES: Final = (0.1, 3600.0)
"""Shortest and longest pause between two looks, in seconds: the clock may have been set."""
SHARED_PAUSES: Final = (2.0, 30.0)
"""The same in a cluster, where another node may have ordered."""
MAX_CONNECTIONS: Final = 1000
"""To port 80."""

_log = logs.get(__name__)


def _open(wanted: WantedCertificate) -> "Directory":
    from autopush.acme.directory import Directory  # noqa: PLC0415 - 40 MB, and only to order

    return Directory(wanted)


@dataclass(eq=False)
class CertificateJob:
    """Has the folder hold what is wanted, now and later. `shared`: in a cluster."""

    wanted: WantedCertificate
    folder: CertificateFolder
    clock: Clock
    shared: SharedCertificate | None = None
    open_directory: Callable[[WantedCertificate], "Directory"] = _open
    _answers: dict[str, str] = field(default_factory=dict)
    _revision: int = -1
    _reading: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def run(self) -> None:
        """Until cancelled."""
        state = self.folder.read()
        if (failure := renewal.at_start(state.failure)) != state.failure:
            state.failure = failure
            self.folder.write(state)
        errors = 0
        while True:
            try:
                pause = await self.look()
                errors = 0
            except (StartupError, KeytablesError) as error:  # of the folder, of the shared state
                errors += 1
                pause = renewal.RETRIES.delay(errors)
                _log.error("No certificate can be ordered", reason=str(error), delay=round(pause))
            except LeaseLost:
                pause = SHARED_PAUSES[1]
            except Exception as error:  # noqa: BLE001 - a restart would order again at once
                errors += 1
                pause = renewal.RETRIES.delay(errors)
                _log.exception("Unexpected error", error=error, where="certificate")
            await asyncio.sleep(pause)

    async def look(self) -> float:
        """Order a certificate if that is due; returns the seconds until the next look."""
        state = await self._present()
        if not self._reason(state):
            await self._ask(state)
        if self._reason(state) and self._retry_at(state) <= self.clock():
            if self.shared is None:
                await self._order(state)
            elif await self.shared.lease.acquire():
                async with self.shared.lease:
                    state = await self._present()  # another node may have ordered it just now
                    if self._reason(state) and self._retry_at(state) <= self.clock():
                        await self._order(state)
        return self._pause(state)

    async def find_answer(self, token: str) -> str | None:
        """To the challenge of this token."""
        answer = self._answers.get(token)
        if answer is None and self.shared is not None:
            async with self._reading:  # anybody may ask: one read at a time
                answer = (await self.shared.read()).challenges.get(token)
        return answer

    # ── what is due ──────────────────────────────────────────────────────────────────────────────

    def _reason(self, state: AcmeState) -> str:
        facts = facts_of(state.certificate)
        now = self.clock()
        return renewal.reason_to_order(self.wanted, facts, state.issued_by, state.suggested, now)

    def _retry_at(self, state: AcmeState) -> float:
        failure = state.failure
        if failure is None or failure.wanted != renewal.wanted_key(self.wanted):
            return 0.0
        return failure.retry_at

    def _pause(self, state: AcmeState) -> float:
        facts = facts_of(state.certificate)
        due = [self._retry_at(state)]
        if facts is not None and not self._reason(state):
            due = [facts.renew_at(state.suggested), state.ask_at]
        shortest, longest = PAUSES if self.shared is None else SHARED_PAUSES
        return min(max(shortest, min(due) - self.clock()), longest)

    async def _present(self) -> AcmeState:
        state = self.folder.read()
        if self.shared is not None:
            shared = await self.shared.read()
            if shared.state is not None and shared.revision != self._revision:
                self._revision, state = shared.revision, shared.state
                self.folder.write(state)
        return state

    async def _save(self, state: AcmeState) -> None:
        self.folder.write(state)
        if self.shared is not None:
            self._revision = await self.shared.write(state)

    async def _ask(self, state: AcmeState) -> None:
        """Ask the directory when to renew, if it is time to."""
        if self.clock() < state.ask_at:
            return
        pause = SUGGESTION_TIMES[1]
        try:
            directory = await asyncio.to_thread(self.open_directory, self.wanted)
            state.suggested, pause = await asyncio.to_thread(
                directory.suggested_renewal, state.certificate
            )
        except OrderFailed as error:  # a third of the life is left then
            _log.debug("The directory does not say when to renew", reason=str(error))
        shortest, longest = SUGGESTION_TIMES
        state.ask_at = self.clock() + min(max(pause, shortest), longest)
        self.folder.write(state)

    # ── an order ─────────────────────────────────────────────────────────────────────────────────

    async def _order(self, state: AcmeState) -> None:
        wanted = self.wanted
        names = listed(wanted.names)
        _log.info("A certificate is ordered", names=names, reason=self._reason(state))
        try:
            try:
                await self._take_steps(state)
            except OrderFailed as error:
                if not (error.is_account_gone and wanted.directory in state.accounts):
                    raise
                del state.accounts[wanted.directory]
                state.order = None
                await self._take_steps(state)
        except OrderFailed as error:
            if error.is_order_gone:
                state.order = None
            key, now, words = renewal.wanted_key(wanted), self.clock(), str(error)
            if error.retry_after is not None:
                words = failures.with_limit(words, now + error.retry_after)
            state.failure = renewal.failed(state.failure, words, now, key, error.retry_after)
            await self._save(state)
            _log.error(
                "No certificate was issued; what is there is served on",
                names=names,
                reason=words,
                next_attempt=failures.moment(state.failure.retry_at),
            )
        else:
            facts = facts_of(state.certificate)
            assert facts is not None
            _log.info(
                "A certificate was issued",
                names=names,
                expires=failures.moment(facts.ends),
                renewal=failures.moment(facts.renew_at()),
            )
        finally:
            self._answers = {}

    async def _take_steps(self, state: AcmeState) -> None:
        wanted = self.wanted
        directory = await asyncio.to_thread(self.open_directory, wanted)
        known = state.accounts.get(wanted.directory)
        account = await asyncio.to_thread(directory.sign_in, known)
        if account != known:
            if known is None:
                _log.info("An account was made", directory=wanted.directory, terms=directory.terms)
            state.accounts = {**state.accounts, wanted.directory: account}
            await self._save(state)
        order = state.order
        pem = ""
        if order is not None and (order.directory, order.names) == (wanted.directory, wanted.names):
            try:
                pem = await self._complete(directory, order)
            except OrderFailed as error:
                if not error.is_order_gone:
                    raise
                _log.info("The order of an earlier process is placed again", reason=str(error))
        if not pem:
            state.order = await asyncio.to_thread(directory.place)
            await self._save(state)
            pem = await self._complete(directory, state.order)
        facts, now = facts_of(pem), self.clock()
        assert facts is not None
        if facts.renew_at() <= now:  # it would be ordered for ever
            raise OrderFailed(
                f"a certificate was issued until {failures.moment(facts.ends)}: the clock of this "
                f"machine, {failures.moment(now)}, is wrong"
            )
        state.certificate, state.issued_by = pem, wanted.directory
        state.order = state.failure = state.suggested = None
        state.ask_at = now
        await self._save(state)

    async def _complete(self, directory: "Directory", order: PlacedOrder) -> str:
        self._answers = await asyncio.to_thread(directory.answers, order)
        if self.shared is not None:
            await self.shared.publish(self._answers)
        try:
            return await asyncio.to_thread(directory.complete, order)
        finally:
            if self.shared is not None:
                await self.shared.publish({})


async def serve(
    job: CertificateJob, sock: socket.socket, https_port: int, stop: asyncio.Event
) -> None:
    """Port 80 and the job, until `stop` is set. Another process that uses the folder goes first: at
    an upgrade, that of the former version.
    """
    loop = asyncio.get_running_loop()
    stopped = loop.create_task(stop.wait())
    locked = loop.create_task(asyncio.to_thread(_lock, job.folder))
    await asyncio.wait(list[asyncio.Task[Any]]([stopped, locked]), return_when=FIRST_COMPLETED)
    if stop.is_set():
        return
    locked.result()
    job.folder.prepare(job.wanted.names, job.clock())  # the other one may have written meanwhile
    wheel = TimerWheel(loop)
    server = HttpServer(
        Port80(job.wanted.names, https_port, job.find_answer),
        limits=Limits(max_body=1 << 20),
        wheel=wheel,
        error_response=plain,
        on_crash=lambda error, _: _crashed(error),
        connection_limits=ConnectionLimits(max_connections=MAX_CONNECTIONS),
    )
    listener = await loop.create_server(server.protocol, sock=sock)
    running = loop.create_task(job.run())
    await asyncio.wait(list[asyncio.Task[Any]]([stopped, running]), return_when=FIRST_COMPLETED)
    listener.close()
    await server.shutdown(1.0)
    wheel.close()
    running.cancel()
    if not stop.is_set():
        running.result()


def _lock(folder: CertificateFolder) -> int:
    descriptor = os.open(folder.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    return descriptor


def _crashed(error: Exception) -> Response:
    _log.exception("Unexpected error", error=error, where="port 80")
    return plain(500, "internal error")
