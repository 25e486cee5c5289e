"""`channelstats serve`: the dashboard; `channelstats login`: a person's token for it.

Rule: a dashboard that listens on this machine alone needs no token; any other one has one. A token
is shown on a terminal only, and in no log.
"""

import asyncio
import errno
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from secrets import token_urlsafe
from types import FrameType
from typing import Final, TypeAlias
from urllib.parse import urlencode

from aiohttp import web

from channelstats import lookup
from channelstats.commands.context import CommandContext, Failure, argument, command
from channelstats.credentials import read_or_create, read_token_file
from channelstats.facts.periods import Now
from channelstats.ingest.runs import unknown_people
from channelstats.pages.model import ChoiceError
from channelstats.processes import running
from channelstats.progress import show
from channelstats.sending.mail import mail_server
from channelstats.settings import PREFIX, OptionGroup, Settings, is_loopback
from channelstats.slack.archive import ArchiveRefused
from channelstats.web.app import make_app
from channelstats.web.auth import SHORTEST_TOKEN, Authenticator, Sessions, personal_token
from channelstats.web.filters import asked
from channelstats.web.front import (
    Front,
    listen,
    log_accept_errors_once,
    most_connections,
    raise_descriptor_limit,
)
from channelstats.web.message_texts import MessageTexts
from channelstats.web.service import DashboardService, FirstImport
from channelstats.web.usual_pages import UsualPages

VARIABLE: Final = f"{PREFIX}SERVE_TOKEN"
TOKEN_FILE: Final = "serve.token"  # noqa: S105 - the name of a file
SESSIONS_FILE: Final = "serve.sessions"
ALL_ADDRESSES: Final = ("0.0.0.0", "::", "")  # noqa: S104 - compared with, not listened on

_TOKEN_BYTES: Final = 24
"""Bytes of a token that is made here."""

_IDLE_TIMEOUT: Final = 75.0
"""Seconds that a connection stays open without a request, or with half of one."""

_SHUTDOWN_TIMEOUT: Final = 3.0
"""Seconds that running requests have to come to an end."""

SignalHandler: TypeAlias = Callable[[int, FrameType | None], object] | signal.Handlers


@command(groups=(OptionGroup.COUNTING, OptionGroup.DASHBOARD, OptionGroup.PRIVACY))
async def serve(context: CommandContext) -> int:
    await serve_dashboard(context)
    return context.exit_code


@command(argument("name", help="who logs in: @name or ID"), groups=(OptionGroup.DASHBOARD,))
async def login(context: CommandContext) -> int:
    token = _token(context)
    if token is None:
        raise Failure(f"this dashboard asks nobody to log in: set {VARIABLE}, or --host")
    async with context.tables() as tables:
        uid = await lookup.user_id(tables, context.arguments.name)
    print(personal_token(token, uid))
    return context.exit_code


async def serve_dashboard(
    context: CommandContext,
    on_ready: Callable[[str], object] = lambda _: None,
    *,
    second: SignalHandler = signal.SIG_DFL,
    is_made_up: bool = False,
) -> None:
    """Serve the dashboard until the process is told to stop; ``on_ready`` is given its address.
    ``second`` handles the second SIGTERM or Ctrl-C, also after this has returned. A workspace that
    ``is_made_up`` is nowhere in Slack.
    """
    settings, stop = context.settings, asyncio.Event()
    await check_port(settings)
    token, texts = _token(context), await asyncio.to_thread(_texts, settings)
    server = mail_server(settings, context.environment)
    async with context.tables(create=True) as tables:
        service = DashboardService(
            tables, settings, clock=context.clock, is_made_up=is_made_up, texts=texts
        )
        await _warm(context, service)
        # Sessions outlive a restart where the data folder is there to keep them.
        kept = settings.folder / SESSIONS_FILE if settings.folder.is_dir() else None
        sessions = Sessions(token or "", context.clock, kept)
        runner = web.AppRunner(
            make_app(service, Authenticator(token, context.monotonic, sessions), server),
            access_log=None,
            shutdown_timeout=_SHUTDOWN_TIMEOUT,
            keepalive_timeout=_IDLE_TIMEOUT,
            auto_decompress=False,
        )
        await runner.setup()
        assert runner.server is not None
        front = Front(runner.server, most_connections(raise_descriptor_limit()))
        log_accept_errors_once(asyncio.get_running_loop())
        listening: asyncio.Server | None = None
        try:
            listening = await _listen(front, settings)
            port = listening.sockets[0].getsockname()[1]  # the system's choice for port 0
            url = f"http://{_url_host(settings.host)}:{port}/"
            if token is not None:
                _show_login(context, url, token)
            _on_signal(stop, second)
            print(f"channelstats ready: {url}", flush=True)
            on_ready(url)
            async with running(UsualPages(service).run()):
                await stop.wait()
        finally:
            if listening is not None:
                listening.close()
            front.close()
            await runner.cleanup()


def _on_signal(stop: asyncio.Event, second: SignalHandler) -> None:
    """Have the first SIGTERM or Ctrl-C set ``stop``; ``second`` handles those after it."""
    loop, signals = asyncio.get_running_loop(), (signal.SIGTERM, signal.SIGINT)

    def first() -> None:
        stop.set()
        for number in signals:
            loop.remove_signal_handler(number)
            signal.signal(number, second)

    for number in signals:
        loop.add_signal_handler(number, first)


async def _warm(context: CommandContext, service: DashboardService) -> None:
    """Read what the first page shows."""
    try:
        snapshot = await service.snapshot()
    except FirstImport:
        context.say("the first import is going on; the dashboard says so until it is over")
        return
    if snapshot.is_empty:
        folder = context.settings.folder
        context.say(f"there is no data in {folder} yet; the dashboard says how to import some")
        return
    names = await service.names(snapshot)
    for name in unknown_people(context.settings.team, names.users):
        context.say(f"team: nobody is called {name!r}")
    usual = asked([], Now(context.today, snapshot.history, context.settings.first_weekday))
    with (
        context.progress_bar("reading", " days") as bar,
        suppress(ChoiceError),  # The page says it, and leads to others.
    ):
        await service.read(usual.choice, snapshot, partial(show, bar))


async def check_port(settings: Settings) -> None:
    """Find out before anything that takes time whether the port can be listened on.

    :raises Failure: it cannot
    """
    if settings.port:
        (await _listen(asyncio.Protocol, settings)).close()


async def _listen(front: Callable[[], asyncio.Protocol], settings: Settings) -> asyncio.Server:
    host, port = settings.host, settings.port
    try:
        return await listen(front, host, port)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise Failure(
                f"port {port} of {host} is in use: give another one with --port"
            ) from None
        raise Failure(f"{host}:{port}: {error.strerror or error}") from None


def _url_host(host: str) -> str:
    """The host of a URL that leads to the dashboard on this machine."""
    if host in ALL_ADDRESSES:
        return "127.0.0.1"
    return f"[{host}]" if ":" in host else host


def _texts(settings: Settings) -> MessageTexts | None:
    """What messages say, where that is asked for.

    :raises Failure: there is no export
    """
    if not settings.texts:
        return None
    try:
        return MessageTexts.open(Path(settings.texts).expanduser())
    except ArchiveRefused as error:
        raise Failure(f"texts: {error}") from None


# ── the token ────────────────────────────────────────────────────────────────────────────────────


def _token(context: CommandContext) -> str | None:
    """What visitors have to show; None where only this machine is served."""
    token = context.environment.get(VARIABLE, "").strip()
    if token:
        if len(token) < SHORTEST_TOKEN or not (token.isascii() and token.isprintable()):
            raise Failure(f"{VARIABLE}: expected {SHORTEST_TOKEN} or more characters of ASCII")
        return token
    if is_loopback(context.settings.host):
        return None
    path = context.settings.folder / TOKEN_FILE
    read_or_create(path, f"{token_urlsafe(_TOKEN_BYTES)}\n".encode)
    token = read_token_file(path)
    if len(token) < SHORTEST_TOKEN:
        raise Failure(f"{path}: expected a token; remove the file to get a new one")
    return token


def _show_login(context: CommandContext, url: str, token: str) -> None:
    """On a terminal the address to log in with; elsewhere only where the token is."""
    if context.environment.get(VARIABLE, "").strip():
        context.say(f"log in at {url} with the token of {VARIABLE}")
    elif sys.stderr.isatty():
        context.say(f"log in at {url}?{urlencode({'token': token})}")
    else:
        context.say(f"log in at {url} with the token in {context.settings.folder / TOKEN_FILE}")
