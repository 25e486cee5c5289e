"""`channelstats doctor`: whether what the other commands need is there, and what Slack says of the
tokens: whose they are, what they may do, how long a first sync takes.

Rule: it changes nothing, creates nothing and posts nothing, and reads no message; a check that
fails does not end the others. No token is shown.
"""

from collections.abc import AsyncIterator, Collection, Iterable
from typing import Final
from urllib.parse import urlsplit

from channelstats.commands.context import DONE, WITH_PROBLEMS, Command, CommandContext, many
from channelstats.commands.local_checks import (
    Finding,
    Level,
    check_machine,
    check_settings,
    check_store,
    ok,
    problem,
    warning,
)
from channelstats.credentials import Purpose, Token, find_token
from channelstats.render.words import duration_text, printable
from channelstats.settings import SettingError
from channelstats.slack.errors import SlackError
from channelstats.slack.objects import Identity, ListedChannel
from channelstats.slack.rate_limits import AppKind, limits
from channelstats.slack.web_api import WebApi

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
        ("channels:manage", "topics of stats channels, create-stats-channel, unarchive"),
        ("files:write", "files with reports"),
        ("channels:history", "checking whether a report arrived after a lost connection"),
        ("im:write", "the same for reports to people"),
        ("im:history", "the same for reports to people"),
    ),
}
"""Scopes, and what they are for."""

_INSTEAD: Final = {"channels:join": "channels:write", "channels:manage": "channels:write"}
"""Scopes that tokens of users have in place of those."""

_TARGETS: Final = (
    "report_channel",
    "brief_channel",
    "channel_stats",
    "optin_channel",
    "help_channel",
)


async def check_slack(context: CommandContext) -> AsyncIterator[Finding]:
    seen: Token | None = None
    for purpose in Purpose:
        about = f"token that {purpose}s"
        try:
            token = find_token(purpose, context.settings, context.environment)
        except SettingError as error:
            yield problem(about, str(error))
            continue
        if token is None:
            yield warning(
                about,
                f"none; put it into {purpose.variable}, or name its file with "
                f"{purpose.flag}. Exports are imported without one.",
            )
            continue
        same = seen is not None and seen.text == token.text
        seen = seen or token
        async for finding in _token(context, token, purpose, about, same=same):
            yield finding


async def _token(
    context: CommandContext, token: Token, purpose: Purpose, about: str, *, same: bool
) -> AsyncIterator[Finding]:
    async with context.web_api(token.text) as api:
        try:
            identity = await api.identity()
        except SlackError as error:
            yield problem(about, f"of {token.place}: {error}")
            return
        kind = "bot" if identity.bot_id else "user"
        shared = ", the same as the one that reads" if same else ""
        yield ok(about, f"of {token.place}: {kind} {identity.user} of {identity.team}{shared}")
        for finding in _scopes(about, purpose, identity.scopes, own=token.purpose is purpose):
            yield finding
        if purpose is Purpose.READ:
            for finding in _links(context, identity):
                yield finding
            async for finding in _workspace(context, api, identity):
                yield finding


def _scopes(about: str, purpose: Purpose, scopes: Collection[str], *, own: bool) -> list[Finding]:
    """What a token may do for a purpose. Where it is not its ``own``, nobody may want it to."""
    if not scopes:
        return [warning(about, "Slack does not say which scopes it has")]
    has = {*scopes, *(scope for scope, instead in _INSTEAD.items() if instead in scopes)}
    lacking = [
        (problem if own else warning)(about, f"it lacks the scope {scope}, for {what}")
        for scope, what in NEEDED_SCOPES[purpose]
        if scope not in has
    ]
    found = lacking or [ok(about, "it has every scope that it needs")]
    if further := _listed(
        (scope, what) for scope, what in USEFUL_SCOPES[purpose] if scope not in has
    ):
        found.append(ok(about, f"it could do more with {further}"))
    return found


def _listed(scopes: Iterable[tuple[str, str]]) -> str:
    """Scopes with what they are for, those for the same together."""
    found: dict[str, list[str]] = {}
    for scope, what in scopes:
        found.setdefault(what, []).append(scope)
    return "; ".join(f"{' and '.join(names)} ({what})" for what, names in found.items())


def _links(context: CommandContext, identity: Identity) -> list[Finding]:
    """Whether links of reports lead to the workspace of the token."""
    own = (urlsplit(identity.url).hostname or "").partition(".")[0]
    given = context.settings.slack_name
    if not own or given == own:
        return []
    if not given:
        return [warning("links", f"reports have none: set slack_name = {own}")]
    return [warning("links", f"slack_name is {given}, but the token is of {own}")]


async def _workspace(
    context: CommandContext, api: WebApi, identity: Identity
) -> AsyncIterator[Finding]:
    """What the limits of the app mean for the channels there are."""
    try:
        pages = [page.items async for page in api.channels(private=False)]
    except SlackError as error:
        yield problem("channels", str(error))
        return
    channels = [channel for page in pages for channel in page]
    yield _duration(context.settings.kind_of_app, channels)
    outside = sum(not (channel.is_member or channel.is_archived) for channel in channels)
    if identity.bot_id and outside:
        yield warning(
            "channels",
            f"the bot is not in {outside:,} of {many(len(channels), 'channel')}: invite it, or "
            "use channelstats sync --join, or the token of a user",
        )
    keys = {key for channel in channels for key in (channel.id, channel.name)}
    for name in _TARGETS:
        if (target := getattr(context.settings, name)) and target not in keys:
            yield warning("channels", f"{name}: no public channel is called {target}")


def _duration(kind: AppKind, channels: Collection[ListedChannel]) -> Finding:
    """How long a first sync takes at least: a call for the members and one for the messages of each
    channel.
    """
    limit = limits(kind)
    history = limit["conversations.history"]
    in_use = sum(not channel.is_archived for channel in channels)
    minutes = in_use / limit["conversations.members"].per_minute
    minutes += len(channels) / history.per_minute
    text = (
        f"{many(history.per_minute, 'call')} a minute for messages, {history.items} in each: a "
        f"first sync of {many(len(channels), 'channel')} takes {duration_text(int(minutes * 60))} "
        "or more, and one call for each thread"
    )
    if kind is AppKind.UNLISTED:
        return warning("app", f"unlisted: {text}; an app made for this workspace only is faster")
    return ok("app", f"{kind}: {text}")


async def _doctor(context: CommandContext) -> int:
    code = DONE
    for check in (check_machine, check_settings, check_store, check_slack):
        async for finding in check(context):
            if finding.level is Level.PROBLEM:
                code = WITH_PROBLEMS
            if finding.level is not Level.OK or not context.arguments.quiet:
                print(printable(str(finding)), flush=True)
    return code


DOCTOR: Final = Command("doctor", "check the store, the settings and the tokens", _doctor)
