"""`channelstats doctor`: whether what the other commands need is there, on this machine and in what
Slack says of the tokens: whose they are, what they may do, how long a first sync takes.

Rule: it changes nothing, creates nothing and posts nothing, and reads no message; a check that
fails does not end the others. No token is shown.
"""

import asyncio
import os
import platform
from collections.abc import Collection
from datetime import date, timedelta
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from channelstats.commands import program_version
from channelstats.commands.context import (
    NOTHING_IMPORTED,
    CommandContext,
    command,
    data_folder_problem,
    many,
    store_is_missing,
)
from channelstats.commands.send import DESTINATIONS
from channelstats.credentials import Purpose, Token, find_token
from channelstats.days import minute_text
from channelstats.render.words import duration_text, printable
from channelstats.sending.mail import MailServer, logged_in, mail_server, reason
from channelstats.settings import OPTIONS, PREFIX, OptionGroup, SettingError, show_value
from channelstats.settings.sources import OTHER_VARIABLES, nearest
from channelstats.slack.errors import SlackError
from channelstats.slack.objects import Identity, ListedChannel
from channelstats.slack.rate_limits import AppKind, limits
from channelstats.slack.web_api import WebApi
from channelstats.tables import Tables
from channelstats.tables.items import HASH_KEYS
from keytables import Engine, KeytablesError
from keytables.stores import PostgresUrl, SqliteUrl, open_engine, parse_store, without_password

NEEDED_SCOPES: Final = {
    Purpose.READ: (
        ("users:read", "sync users"),
        ("channels:read", "sync channels"),
        ("channels:history", "sync messages"),
    ),
    Purpose.POST: (("chat:write", "reports that are sent"),),
}
USEFUL_SCOPES: Final = {
    Purpose.READ: (
        ("channels:join", "sync --join"),
        ("groups:read", "sync --include-private"),
        ("groups:history", "sync --include-private"),
    ),
    Purpose.POST: (
        ("chat:write.public", "posting to channels that the app is not a member of"),
        ("channels:join", "joining the channels that reports go to"),
        ("channels:manage", "topics of stats channels"),
        ("files:write", "files with reports"),
    ),
}
"""Scopes, and what they are for."""

_INSTEAD: Final = {"channels:join": "channels:write", "channels:manage": "channels:write"}
"""Scopes that tokens of users have in place of those."""

_TARGETS: Final = (*DESTINATIONS, "channel_stats", "help_channel")

_LIBRARIES: Final = ("polars", "slack-sdk", "aiohttp", "jinja2", "msgspec", "apsw", "pywebpush")
_OUTDATED: Final = timedelta(8)
"""Without a message for so long the last week is not complete."""


@command(groups=tuple(OptionGroup))
async def doctor(context: CommandContext) -> int:
    run = Doctor(context)
    run.check_machine()
    run.check_settings()
    await run.check_store()
    await run.check_tokens()
    await run.check_mail()
    return context.exit_code


class Doctor:
    """Prints a line for each finding; for a problem or a warning the line says what to do."""

    def __init__(self, context: CommandContext) -> None:
        self.context, self.settings = context, context.settings
        self.slack_name = self.settings.slack_name
        """What links lead to, as far as it is known."""

    def ok(self, about: str, text: str) -> None:
        if not self.context.arguments.quiet:
            self._print("ok", about, text)

    def warn(self, about: str, text: str) -> None:
        self._print("warning", about, text)

    def fail(self, about: str, text: str) -> None:
        self.context.problems += 1
        self._print("problem", about, text)

    def _print(self, level: str, about: str, text: str) -> None:
        print(printable(f"{level:<8} {about}: {text}"), flush=True)

    # ── this machine ─────────────────────────────────────────────────────────────────────────────

    def check_machine(self) -> None:
        versions = [f"channelstats {program_version()}", f"Python {platform.python_version()}"]
        missing = []
        for name in _LIBRARIES:
            try:
                versions.append(f"{name} {version(name)}")
            except PackageNotFoundError:
                missing.append(name)
        self.ok("versions", ", ".join(versions))
        if missing:
            self.fail("versions", f"missing: {', '.join(missing)}")
        now = minute_text(int(self.context.clock()), self.context.zone)
        self.ok("clock", f"{now} in {self.settings.report_timezone}")

    def check_settings(self) -> None:
        places = self.settings.places
        for name in (option.name for option in OPTIONS if option.name in places):
            value = show_value(getattr(self.settings, name))
            self.ok("settings", f"{name} = {value} ({places[name]})")
        others = f"the {len(OPTIONS) - len(places)} others" if places else "all"
        self.ok("settings", f"{others} have their defaults")
        known = {option.variable for option in OPTIONS} | set(OTHER_VARIABLES)
        for name in sorted(self.context.environment):
            if name.startswith(PREFIX) and name not in known:
                near = nearest(name.removeprefix(PREFIX).lower())
                meant = f"; did you mean {PREFIX}{near.upper()}?" if near else ""
                self.warn("settings", f"{name} is not a setting{meant}")

    # ── the store ────────────────────────────────────────────────────────────────────────────────

    async def check_store(self) -> None:
        settings, folder, place = self.settings, self.settings.folder, self._place()
        if wrong := data_folder_problem(settings):
            self.fail("store", wrong)
        elif store_is_missing(settings):
            self.warn("store", f"{place if settings.store else folder}: {NOTHING_IMPORTED}")
        elif not settings.store and not os.access(folder, os.W_OK):
            self.fail("store", f"{folder}: this user cannot write to it")
        else:
            if not settings.store and folder.stat().st_mode & 0o005:
                text = f"every user of this machine can read {folder}; chmod 700 ends that"
                self.warn("store", text)
            try:
                engine = await open_engine(settings.store_url, clock=self.context.clock)
                try:
                    await self._check_tables(engine)
                finally:
                    await engine.close()
            except (KeytablesError, OSError, ValueError) as error:
                text = str(error)  # some say themselves where it is
                self.fail("store", text if place in text else f"{place}: {text}")

    async def _check_tables(self, engine: Engine) -> None:
        prefix, place = self.settings.prefix, self._place()
        expected = {f"{prefix}.{name}" for name in HASH_KEYS}
        missing = expected - set(await engine.table_names())
        if missing == expected:
            self.warn("store", f"{place}: no tables that begin with {prefix!r} yet")
            return
        size = ""
        if not self.settings.store:
            size = f", {await asyncio.to_thread(_size, self.settings.folder)}"
        self.ok("store", f"{place}: {many(len(expected - missing), 'table')}{size}")
        if missing:
            self.ok("store", f"the next run makes {', '.join(sorted(missing))}")
            return
        tables = await Tables.open(engine, prefix, self.context.zone)
        self.slack_name = await tables.configuration.slack_name(self.slack_name)
        users, channels = await tables.configuration.counts(), await tables.channels.all()
        archived = sum(channel.is_archived for channel in channels.values())
        self.ok(
            "directory",
            f"{many(users.all_users, 'user')}, {users.active_users:,} of them active; "
            f"{many(len(channels), 'channel')}, {archived:,} of them archived",
        )
        days = await tables.messages.days()
        if not days:
            text = "none yet; see channelstats import-export and channelstats sync"
            self.warn("messages", text)
            return
        read, newest = await tables.configuration.last_run(), date.fromisoformat(max(days))
        until = f"; read up to {minute_text(read, self.context.zone)}" if read else ""
        if newest < self.context.today - _OUTDATED:
            text = f"the newest are of {newest}{until}; the last week is missing"
            self.warn("messages", text)
        else:
            text = f"{many(len(days), 'day')}, the newest is {newest}{until}"
            self.ok("messages", text)
        if left := sum(days.values()):
            self.warn(
                "messages",
                f"{many(left, 'day')} being written to: by a run of now, or by one that was broken "
                "off; the next one completes it",
            )

    def _place(self) -> str:
        """Where the store is; credentials are not part of it."""
        if not self.settings.store:
            return str(self.settings.file)
        url = parse_store(self.settings.store)
        if isinstance(url, SqliteUrl):
            return url.path
        if isinstance(url, PostgresUrl):
            return without_password(self.settings.store)
        region = f" of {url.region}" if url.region else ""
        return f"DynamoDB{region}{f' at {url.endpoint}' if url.endpoint else ''}"

    # ── Slack ────────────────────────────────────────────────────────────────────────────────────

    async def check_tokens(self) -> None:
        first: Token | None = None
        for purpose in Purpose:
            about, token = f"token that {purpose}s", None
            try:
                token = find_token(purpose, self.settings, self.context.environment)
                if token is None:
                    place = f"put it into {purpose.variable}, or name its file with {purpose.flag}"
                    text = f"none; {place}. Exports are imported without one."
                    self.warn(about, text)
                    continue
                async with self.context.web_api(token=token.text) as api:
                    identity = await api.identity()
                    kind = "bot" if identity.bot_id else "user"
                    is_same = first is not None and first.text == token.text
                    same = ", the same as the one that reads" if is_same else ""
                    text = f"of {token.place}: {kind} {identity.user} of {identity.team}{same}"
                    self.ok(about, text)
                    self._check_scopes(about, purpose, identity.scopes, token)
                    if purpose is Purpose.READ:
                        self._check_links(identity)
                        await self._check_channels(api, identity)
            except SettingError as error:
                self.fail(about, str(error))
            except SlackError as error:
                self.fail(about, f"of {token.place}: {error}" if token else str(error))
            first = first or token

    def _check_scopes(
        self, about: str, purpose: Purpose, scopes: Collection[str], token: Token
    ) -> None:
        """What a token may do for a purpose. Where it was given for the other one, nobody may want
        it to.
        """
        if not scopes:
            self.warn(about, "Slack does not say which scopes it has")
            return
        has = {*scopes, *(scope for scope, instead in _INSTEAD.items() if instead in scopes)}
        lacking = [needed for needed in NEEDED_SCOPES[purpose] if needed[0] not in has]
        tell = self.fail if token.purpose is purpose else self.warn
        for scope, what in lacking:
            tell(about, f"it lacks the scope {scope}, for {what}")
        if not lacking:
            self.ok(about, "it has every scope that it needs")
        useful: dict[str, list[str]] = {}
        for scope, what in USEFUL_SCOPES[purpose]:
            if scope not in has:
                useful.setdefault(what, []).append(scope)
        if useful:
            more = "; ".join(f"{' and '.join(names)} ({what})" for what, names in useful.items())
            self.ok(about, f"it could do more with {more}")

    def _check_links(self, identity: Identity) -> None:
        """Whether links of reports lead to the workspace of the token."""
        own = (urlsplit(identity.url).hostname or "").partition(".")[0]
        if own and not self.slack_name:
            self.warn("links", f"slack_name is not set: set slack_name = {own}")
        elif own and self.slack_name != own:
            self.warn("links", f"slack_name is {self.slack_name}, but the token is of {own}")

    async def _check_channels(self, api: WebApi, identity: Identity) -> None:
        """What the limits of the app mean for the channels there are."""
        try:
            pages = api.channels(private=False)
            channels = [channel async for page in pages for channel in page.items]
        except SlackError as error:
            self.fail("channels", str(error))
            return
        self._check_duration(channels)
        outside = sum(not (channel.is_member or channel.is_archived) for channel in channels)
        if identity.bot_id and outside:
            self.warn(
                "channels",
                f"the bot is not in {outside:,} of {many(len(channels), 'channel')}: invite it, or "
                "use channelstats sync --join, or the token of a user",
            )
        keys = {key for channel in channels for key in (channel.id, channel.name)}
        for name in _TARGETS:
            if (target := getattr(self.settings, name)) and target not in keys:
                self.warn("channels", f"{name}: no public channel is called {target}")

    def _check_duration(self, channels: list[ListedChannel]) -> None:
        """How long a first sync takes at least: a call for the members and one for the messages of
        each channel.
        """
        kind, limit = self.settings.app_kind, limits(self.settings.app_kind)
        history = limit["conversations.history"]
        in_use = sum(not channel.is_archived for channel in channels)
        minutes = in_use / limit["conversations.members"].per_minute
        minutes += len(channels) / history.per_minute
        text = (
            f"{kind}: {many(history.per_minute, 'call')} a minute for messages, {history.items} in "
            f"each: a first sync of {many(len(channels), 'channel')} takes "
            f"{duration_text(int(minutes * 60))} or more, and one call for each thread"
        )
        if kind is AppKind.UNLISTED:
            self.warn("app", f"{text}; an app made for this workspace only is faster")
        else:
            self.ok("app", text)

    # ── mail ─────────────────────────────────────────────────────────────────────────────────────

    async def check_mail(self) -> None:
        """Whether the mail server takes the login; nothing is sent."""

        def log_in(server: MailServer) -> None:
            with logged_in(server):
                pass

        try:
            server = mail_server(self.settings, self.context.environment)
            if server is None:
                return
            await asyncio.to_thread(log_in, server)
        except SettingError as error:
            self.fail("mail", str(error))
        except OSError as error:
            self.fail("mail", f"{self.settings.mail_server}: {reason(error)}")
        else:
            how = (
                f"the login of {server.user} works"
                if server.user
                else "it answers, without a login"
            )
            self.ok("mail", f"{server.host}:{server.port}: {how}")


def _size(folder: Path) -> str:
    """1,234 MB, 0.3 MB."""
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 1e6
    return f"{size:,.{0 if size >= 10 else 1}f} MB"
