"""`channelstats sync`: what the Web API says into the store.

Rule: what cannot be read is said line by line, and the rest is taken in; the next run reads what
this one could not.
"""

from typing import Final

from channelstats.commands import NOT_DONE
from channelstats.commands.context import (
    CommandContext,
    argument,
    command,
    date_argument,
    flag,
    many,
)
from channelstats.days import date_at, midnight
from channelstats.ingest.runs import Gap, SyncOptions, SyncResult
from channelstats.ingest.sync import ALL, Part, Sync
from channelstats.settings import OptionGroup

EVERYTHING: Final = "all"

_SHOWN: Final = 10
"""Names of channels in one line."""


@command(
    argument("what", choices=[*map(str, Part), EVERYTHING], help="what to read"),
    date_argument("--since", "read back to a date, once"),
    argument(
        "--channel",
        nargs="+",
        action="extend",
        default=[],
        dest="channels",
        metavar="NAME",
        help="only these channels: names or IDs",
    ),
    flag("--include-private", "private channels too"),
    flag("--join", "join public channels that a bot cannot read otherwise"),
    groups=(OptionGroup.COUNTING, OptionGroup.SLACK, OptionGroup.PRIVACY),
)
async def sync(context: CommandContext) -> int:
    what = context.arguments.what
    async with context.web_api() as api, context.open_for_import() as tables:
        with context.following("reading users and channels", "channel") as on_event:
            result = await Sync(
                api,
                tables,
                clock=context.clock,
                counting=context.settings.counting,
                options=_options(context),
                parts=ALL if what == EVERYTHING else frozenset({Part(what)}),
                on_event=on_event,
            ).run()
        if result.outside:
            context.complain(
                f"the bot of the token is not in {many(len(result.outside), 'channel')}: "
                f"{_listed(result.outside)}; invite it, or join them with --join, or use the token "
                "of a user"
            )
        if result.gaps:
            context.complain(_missing(context, result.gaps))
        context.say(_summary(result))
    nothing = not (result.users or result.listed is not None or result.channels)
    if result.stopped or (result.failed and nothing):
        return NOT_DONE
    return context.exit_code


def _options(context: CommandContext) -> SyncOptions:
    """What to read. Nothing is read that would be removed as too old."""
    settings, arguments = context.settings, context.arguments
    kept = settings.retention_days or max(settings.max_age, settings.thread_max_age)
    since = None if arguments.since is None else midnight(arguments.since, context.zone)
    if since is not None and settings.retention is not None:
        since = max(since, midnight(context.today - settings.retention, context.zone))
    return SyncOptions(
        refetch=settings.refetch,
        max_age=min(settings.max_age, kept),
        thread_max_age=min(settings.thread_max_age, kept),
        include_private=arguments.include_private,
        only=frozenset(name.removeprefix("#") for name in arguments.channels),
        exclude=settings.exclude_channels,
        exclude_people=settings.exclude_users,
        concurrency=settings.concurrency,
        since=since,
        join=arguments.join,
        kept=settings.retention_days or None,
    )


def _summary(result: SyncResult) -> str:
    """What was read, in one line."""
    parts = []
    if result.users:
        parts.append(f"{many(result.users, 'user')} ({result.new_users:,} new)")
    if result.listed is not None:
        parts.append(many(result.listed, "channel"))
    if result.channels:
        messages, channels = many(result.messages, "message"), many(result.channels, "channel")
        parts.append(f"{messages} of {channels}")
    parts += [
        f"{number:,} {what}"
        for number, what in (
            (result.changed, "new or changed"),
            (result.edited, "edited"),
            (result.deleted, "deleted"),
        )
        if number
    ]
    if result.left_out:
        parts.append(f"not {many(result.left_out, 'archived channel')} that the bot is not in")
    if problems := result.problems + len(result.failed):
        parts.append(many(problems, "problem"))
    read = ", ".join(parts) or "nothing new"
    return f"read: {read}{'; stopped, run it again to go on' if result.stopped else ''}"


def _missing(context: CommandContext, gaps: list[Gap]) -> str:
    """What is missing since long ago, in one line."""
    until = date_at(min(gap.until for gap in gaps), context.zone)
    since = date_at(min(gap.since for gap in gaps), context.zone)
    names = _listed([f"#{gap.name}" for gap in gaps])
    if len(gaps) == 1:
        read = f"{names} was last read on {until}"
    else:
        read = f"{many(len(gaps), 'channel')} were last read on {until} or later ({names})"
    limit = "max_age" if context.arguments.since is None else "--since"
    return (
        f"{read}, and {limit} reads back to {since}: what was said in between is missing; "
        f"channelstats sync messages --since {until} fills it"
    )


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - _SHOWN:,} more" if len(names) > _SHOWN else ""
    return ", ".join(sorted(names)[:_SHOWN]) + more
