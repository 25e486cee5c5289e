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

import msgspec

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


class Findings(msgspec.Struct, frozen=True):
    """Prints a line for each finding; for a problem the line says what to do."""

    context: CommandContext

    def ok(self, about: str, text: str) -> None:
        if not self.context.arguments.quiet:
            _print("ok", about, text)

    def warn(self, about: str, text: str) -> None:
        _print("warning", about, text)

    def fail(self, about: str, text: str) -> None:
        self.context.problems += 1
        _print("problem", about, text)


def _print(level: str, about: str, text: str) -> None:
    print(printable(f"{level:<8} {about}: {text}"), flush=True)


@command(groups=tuple(OptionGroup))
async def doctor(context: CommandContext) -> int:
    findings = Findings(context)
    _check_machine(context, findings)
    _check_settings(context, findings)
    slack_name = await _check_store(context, findings) or context.settings.slack_name
    await _check_tokens(context, findings, slack_name)
    await _check_mail(context, findings)
    return context.exit_code


# ── this machine ─────────────────────────────────────────────────────────────────────────────────


def _check_machine(context: CommandContext, findings: Findings) -> None:
    versions, missing = [f"channelstats {program_version()}"], []
    versions.append(f"Python {platform.python_version()}")
    for name in _LIBRARIES:
        try:
            versions.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            missing.append(name)
    findings.ok("versions", ", ".join(versions))
    if missing:
        findings.fail("versions", f"missing: {', '.join(missing)}")
    now = minute_text(int(context.clock()), context.zone)
    findings.ok("clock", f"{now} in {context.settings.report_timezone}")


def _check_settings(context: CommandContext, findings: Findings) -> None:
    settings = context.settings
    set_options = [option for option in OPTIONS if option.name in settings.sources]
    for option in set_options:
        value, place = getattr(settings, option.name), settings.sources[option.name].place
        findings.ok("settings", f"{option.name} = {show_value(value)} ({place})")
    others = f"the {len(OPTIONS) - len(set_options)} others" if set_options else "all"
    findings.ok("settings", f"{others} have their defaults")
    variables = {option.variable for option in OPTIONS} | set(OTHER_VARIABLES)
    for name in sorted(context.environment):
        if name.startswith(PREFIX) and name not in variables:
            near = nearest(name.removeprefix(PREFIX).lower())
            meant = f"; did you mean {PREFIX}{near.upper()}?" if near else ""
            findings.warn("settings", f"{name} is not a setting{meant}")


# ── the store ────────────────────────────────────────────────────────────────────────────────────


async def _check_store(context: CommandContext, findings: Findings) -> str:
    """Whether it can be used and what is in it; what it says links lead to, "" for nothing."""
    settings, folder, place = context.settings, context.settings.folder, _place(context)
    if wrong := data_folder_problem(settings):
        findings.fail("store", wrong)
    elif store_is_missing(settings):
        findings.warn("store", f"{place if settings.store else folder}: {NOTHING_IMPORTED}")
    elif not settings.store and not os.access(folder, os.W_OK):
        findings.fail("store", f"{folder}: this user cannot write to it")
    else:
        if not settings.store and folder.stat().st_mode & 0o005:
            text = f"every user of this machine can read {folder}; chmod 700 ends that"
            findings.warn("store", text)
        try:
            engine = await open_engine(settings.store_url, clock=context.clock)
            try:
                return await _check_tables(context, findings, engine)
            finally:
                await engine.close()
        except (KeytablesError, OSError, ValueError) as error:
            text = str(error)  # some say themselves where it is
            findings.fail("store", text if place in text else f"{place}: {text}")
    return ""


async def _check_tables(context: CommandContext, findings: Findings, engine: Engine) -> str:
    prefix, place = context.settings.prefix, _place(context)
    expected = {f"{prefix}.{name}" for name in HASH_KEYS}
    missing = expected - set(await engine.table_names())
    if missing == expected:
        findings.warn("store", f"{place}: no tables that begin with {prefix!r} yet")
        return ""
    size = ""
    if not context.settings.store:
        size = f", {await asyncio.to_thread(_size, context.settings.folder)}"
    findings.ok("store", f"{place}: {many(len(expected - missing), 'table')}{size}")
    if missing:
        findings.ok("store", f"the next run makes {', '.join(sorted(missing))}")
        return ""
    tables = await Tables.open(engine, prefix, context.zone)
    users, channels = await tables.configuration.counts(), await tables.channels.all()
    archived = sum(channel.is_archived for channel in channels.values())
    all_users, all_channels = many(users.all_users, "user"), many(len(channels), "channel")
    findings.ok(
        "directory",
        f"{all_users}, {users.active_users:,} of them active; {all_channels}, {archived:,} of them "
        "archived",
    )
    await _check_messages(context, findings, tables)
    return await tables.configuration.slack_name(context.settings.slack_name)


async def _check_messages(context: CommandContext, findings: Findings, tables: Tables) -> None:
    days = await tables.messages.days()
    if not days:
        text = "none yet; see channelstats import-export and channelstats sync"
        findings.warn("messages", text)
        return
    read = await tables.configuration.last_run()
    until = f"; read up to {minute_text(read, context.zone)}" if read else ""
    newest = date.fromisoformat(max(days))
    if newest < context.today - _OUTDATED:
        text = f"the newest are of {newest}{until}; the last week is missing"
        findings.warn("messages", text)
    else:
        findings.ok("messages", f"{many(len(days), 'day')}, the newest is {newest}{until}")
    if left := sum(days.values()):
        findings.warn(
            "messages",
            f"{many(left, 'day')} being written to: by a run of now, or by one that was broken "
            "off; the next one completes it",
        )


def _place(context: CommandContext) -> str:
    """Where the store is; credentials are not part of it."""
    if not context.settings.store:
        return str(context.settings.file)
    url = parse_store(context.settings.store)
    if isinstance(url, SqliteUrl):
        return url.path
    if isinstance(url, PostgresUrl):
        return without_password(context.settings.store)
    region = f" of {url.region}" if url.region else ""
    return f"DynamoDB{region}{f' at {url.endpoint}' if url.endpoint else ''}"


def _size(folder: Path) -> str:
    """1,234 MB, 0.3 MB."""
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 1e6
    return f"{size:,.{0 if size >= 10 else 1}f} MB"


# ── Slack ────────────────────────────────────────────────────────────────────────────────────────


async def _check_tokens(context: CommandContext, findings: Findings, slack_name: str) -> None:
    first: Token | None = None
    for purpose in Purpose:
        about, token = f"token that {purpose}s", None
        try:
            token = find_token(purpose, context.settings, context.environment)
            if token is None:
                place = f"put it into {purpose.variable}, or name its file with {purpose.flag}"
                findings.warn(about, f"none; {place}. Exports are imported without one.")
                continue
            async with context.web_api(token=token.text) as api:
                identity = await api.identity()
                kind = "bot" if identity.bot_id else "user"
                is_same = first is not None and first.text == token.text
                whose = f"of {token.place}: {kind} {identity.user} of {identity.team}"
                findings.ok(about, whose + (", the same as the one that reads" if is_same else ""))
                _check_scopes(findings, about, purpose, identity.scopes, token)
                if purpose is Purpose.READ:
                    _check_links(findings, identity, slack_name)
                    await _check_channels(context, findings, api, identity)
        except SettingError as error:
            findings.fail(about, str(error))
        except SlackError as error:
            findings.fail(about, f"of {token.place}: {error}" if token else str(error))
        first = first or token


async def _check_mail(context: CommandContext, findings: Findings) -> None:
    """Whether the mail server takes the login; nothing is sent."""

    def log_in(server: MailServer) -> None:
        with logged_in(server):
            pass

    try:
        server = mail_server(context.settings, context.environment)
        if server is None:
            return
        await asyncio.to_thread(log_in, server)
    except SettingError as error:
        findings.fail("mail", str(error))
    except OSError as error:
        findings.fail("mail", f"{context.settings.mail_server}: {reason(error)}")
    else:
        how = f"the login of {server.user} works" if server.user else "it answers, without a login"
        findings.ok("mail", f"{server.host}:{server.port}: {how}")


def _check_scopes(
    findings: Findings, about: str, purpose: Purpose, scopes: Collection[str], token: Token
) -> None:
    """What a token may do for a purpose. Where it was given for the other one, nobody may want it
    to.
    """
    if not scopes:
        findings.warn(about, "Slack does not say which scopes it has")
        return
    has = {*scopes, *(scope for scope, instead in _INSTEAD.items() if instead in scopes)}
    lacking = [needed for needed in NEEDED_SCOPES[purpose] if needed[0] not in has]
    for scope, what in lacking:
        tell = findings.fail if token.purpose is purpose else findings.warn
        tell(about, f"it lacks the scope {scope}, for {what}")
    if not lacking:
        findings.ok(about, "it has every scope that it needs")
    useful: dict[str, list[str]] = {}
    for scope, what in USEFUL_SCOPES[purpose]:
        if scope not in has:
            useful.setdefault(what, []).append(scope)
    if useful:
        more = "; ".join(f"{' and '.join(names)} ({what})" for what, names in useful.items())
        findings.ok(about, f"it could do more with {more}")


def _check_links(findings: Findings, identity: Identity, slack_name: str) -> None:
    """Whether links of reports lead to the workspace of the token."""
    own = (urlsplit(identity.url).hostname or "").partition(".")[0]
    if own and not slack_name:
        findings.warn("links", f"slack_name is not set: set slack_name = {own}")
    elif own and slack_name != own:
        findings.warn("links", f"slack_name is {slack_name}, but the token is of {own}")


async def _check_channels(
    context: CommandContext, findings: Findings, api: WebApi, identity: Identity
) -> None:
    """What the limits of the app mean for the channels there are."""
    try:
        pages = api.channels(private=False)
        channels = [channel async for page in pages for channel in page.items]
    except SlackError as error:
        findings.fail("channels", str(error))
        return
    _check_duration(context.settings.app_kind, findings, channels)
    outside = sum(not (channel.is_member or channel.is_archived) for channel in channels)
    if identity.bot_id and outside:
        findings.warn(
            "channels",
            f"the bot is not in {outside:,} of {many(len(channels), 'channel')}: invite it, or "
            "use channelstats sync --join, or the token of a user",
        )
    keys = {key for channel in channels for key in (channel.id, channel.name)}
    for name in _TARGETS:
        if (target := getattr(context.settings, name)) and target not in keys:
            findings.warn("channels", f"{name}: no public channel is called {target}")


def _check_duration(kind: AppKind, findings: Findings, channels: list[ListedChannel]) -> None:
    """How long a first sync takes at least: a call for the members and one for the messages of each
    channel.
    """
    limit = limits(kind)
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
        findings.warn("app", f"{text}; an app made for this workspace only is faster")
    else:
        findings.ok("app", text)
