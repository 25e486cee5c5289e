"""`channelstats serve`: the dashboard.

Rule: whoever is on this machine needs no token while the dashboard listens on this machine alone;
otherwise there is one. A token is shown on a terminal only, and in no log.
"""

import argparse
import asyncio
import errno
import signal
import stat
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from secrets import token_urlsafe
from typing import Final
from urllib.parse import urlencode

from aiohttp import web

from channelstats.commands.call import DONE, Call, Command, Failure
from channelstats.commands.secrets import pseudonym_secret
from channelstats.settings import PREFIX, Group
from channelstats.settings.kept_files import kept_file
from channelstats.views.model import Choice, ChoiceError
from channelstats.web.access import SHORTEST_TOKEN, Authenticator, is_this_machine
from channelstats.web.app import State, make_app
from channelstats.web.filters import Now, asked
from channelstats.web.service import DashboardService, FirstImport

VARIABLE: Final = f"{PREFIX}SERVE_TOKEN"
FILE: Final = "serve.token"
EVERYWHERE: Final = ("0.0.0.0", "::", "")  # noqa: S104 - compared with, not listened on

_TOKEN: Final = 24
"""Bytes of a token that is made here."""

_IDLE: Final = 75.0
"""Seconds that a connection stays open without a request, or with half of one."""

_GOODBYE: Final = 3.0
"""Seconds that running requests have to come to an end."""


def _flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--anonymize", action="store_true", help="pseudonyms for people and channels, no links"
    )


async def _run(call: Call) -> int:
    def ready(url: str) -> None:
        print(f"channelstats ready: {url}", flush=True)

    return await serve(call, on_ready=ready)


async def serve(call: Call, *, on_ready: Callable[[str], None]) -> int:
    """Serve the dashboard until the process is told to stop; ``on_ready`` is given its address."""
    stop = asyncio.Event()
    async with _running(call) as url:
        with _until_told(stop):
            on_ready(url)
            await stop.wait()
    return DONE


@asynccontextmanager
async def _running(call: Call) -> AsyncIterator[str]:
    settings = call.settings
    token = _token(call)
    secret = pseudonym_secret(settings) if getattr(call.given, "anonymize", False) else None
    async with call.tables(make=True) as tables:
        service = DashboardService(tables, settings, clock=call.clock, secret=secret)
        await _warm(call, service)
        guard = Authenticator(token, call.steady)
        state = State(tables, settings, call.clock, guard, service, anonymous=secret is not None)
        runner = web.AppRunner(
            make_app(state), access_log=None, shutdown_timeout=_GOODBYE, keepalive_timeout=_IDLE
        )
        await runner.setup()
        try:
            site = web.TCPSite(runner, settings.host, settings.port)
            await _start(site, settings.host, settings.port)
            port = runner.addresses[0][1]
            url = f"http://{_shown(settings.host)}:{port}/"
            if token is not None:
                _tell(call, url, token)
            yield url
        finally:
            await runner.cleanup()


async def _warm(call: Call, service: DashboardService) -> None:
    """Read what the first page shows."""
    try:
        snapshot = await service.snapshot()
    except FirstImport:
        call.say("the first import is going on; the dashboard says so until it is over")
        return
    if snapshot.is_empty:
        call.say(f"nothing was read into {call.settings.folder} yet; the dashboard says how")
        return
    usual = asked([], Now(call.today, snapshot.history, call.settings.first_weekday))
    progress = call.progress()
    try:
        with suppress(ChoiceError):  # The page says it, and leads to others.
            await service.warm(
                Choice(usual.first, usual.last),
                snapshot,
                lambda done, total: progress.show(done, total, "days read"),
            )
    finally:
        progress.end()


async def _start(site: web.TCPSite, host: str, port: int) -> None:
    try:
        await site.start()
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise Failure(
                f"port {port} of {host} is in use: give another one with --port"
            ) from None
        raise Failure(f"{host}:{port}: {error.strerror or error}") from None


def _shown(host: str) -> str:
    """How an address on which the dashboard listens is written in a URL of this machine."""
    if host in EVERYWHERE:
        return "127.0.0.1"
    return f"[{host}]" if ":" in host else host


# ── the token ────────────────────────────────────────────────────────────────────────────────────


def _token(call: Call) -> str | None:
    """What visitors have to show; None where only this machine is served."""
    given = call.environment.get(VARIABLE, "").strip()
    if given:
        if len(given) < SHORTEST_TOKEN or not (given.isascii() and given.isprintable()):
            raise Failure(f"{VARIABLE}: expected {SHORTEST_TOKEN} or more characters of ASCII")
        return given
    if is_this_machine(call.settings.host):
        return None
    return _kept(call.settings.folder)


def _new_token() -> bytes:
    return f"{token_urlsafe(_TOKEN)}\n".encode()


def _kept(folder: Path) -> str:
    """The token in the data folder."""
    token = kept_file(folder, FILE, _new_token)
    path = folder / FILE
    if stat.S_IMODE(path.stat().st_mode) & 0o077:
        raise Failure(f"{path}: others can read this token; make it yours alone with chmod 600")
    text = token.decode("ascii", "replace").strip()
    if len(text) < SHORTEST_TOKEN:
        raise Failure(f"{path}: expected a token; remove the file to get a new one")
    return text


def _tell(call: Call, url: str, token: str) -> None:
    """On a terminal the address to log in with; elsewhere only where the token is."""
    if call.environment.get(VARIABLE, "").strip():
        call.say(f"log in at {url} with the token of {VARIABLE}")
    elif sys.stderr.isatty():
        call.say(f"log in at {url}?{urlencode({'token': token})}")
    else:
        call.say(f"log in at {url} with the token in {call.settings.folder / FILE}")


# ── the end ──────────────────────────────────────────────────────────────────────────────────────


@contextmanager
def _until_told(stop: asyncio.Event) -> Iterator[None]:
    """SIGTERM and SIGINT set an event instead of breaking off what runs."""
    loop, numbers = asyncio.get_running_loop(), (signal.SIGTERM, signal.SIGINT)
    for number in numbers:
        loop.add_signal_handler(number, stop.set)
    try:
        yield
    finally:
        for number in numbers:
            loop.remove_signal_handler(number)


COMMAND = Command(
    "serve", "serve the dashboard", _run, _flags, (Group.COUNTING, Group.DASHBOARD, Group.PRIVACY)
)
