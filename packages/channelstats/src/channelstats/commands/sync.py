"""`channelstats sync`: what the Web API says into the store.

Rule: what cannot be read is said line by line, and the rest is taken in; the next run reads what
this one could not.
"""

import argparse
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Final

from channelstats.commands.call import DONE, NOT_DONE, WITH_PROBLEMS, Call, Command
from channelstats.commands.days import a_date
from channelstats.commands.output import many
from channelstats.commands.web_api import web_api
from channelstats.commands.writing import remove_old, writing
from channelstats.days import date_at, midnight
from channelstats.ingest.sync import ALL, Part, Sync
from channelstats.ingest.sync_choice import SyncChoice
from channelstats.ingest.sync_events import (
    ChannelsDone,
    ChannelSynced,
    Failed,
    Gap,
    MembersRead,
    MessagesStarted,
    Outside,
    Problem,
    Stopped,
    SyncEvent,
    SyncFinished,
    UsersDone,
)
from channelstats.render.words import printable
from channelstats.settings import Group

EVERYTHING: Final = "all"

_SHOWN: Final = 10
"""Names of channels in one line."""


def _flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "what", choices=[*(str(part) for part in Part), EVERYTHING], help="what to read"
    )
    parser.add_argument("--since", type=a_date, metavar="DATE", help="read back to a date, once")
    parser.add_argument(
        "--channel",
        nargs="+",
        action="extend",
        default=[],
        dest="channels",
        metavar="NAME",
        help="these channels alone: names or IDs",
    )
    parser.add_argument("--include-private", action="store_true", help="private channels too")
    parser.add_argument(
        "--join", action="store_true", help="join public channels that a bot cannot read otherwise"
    )


async def _run(call: Call) -> int:
    told = _Told(call)
    async with web_api(call) as api, call.tables(make=True) as tables, writing(call, tables):
        run = Sync(
            api,
            tables,
            clock=call.clock,
            counting=call.settings.counting,
            choice=_choice(call),
            parts=ALL if call.given.what == EVERYTHING else frozenset({Part(call.given.what)}),
        )
        await told.follow(run.run())
        call.say(told.summary())
        if removed := await remove_old(call, tables, call.progress()):
            call.say(removed)
    return told.exit_code


def _choice(call: Call) -> SyncChoice:
    """What to read. Nothing is read that would be removed as too old."""
    settings, given = call.settings, call.given
    kept = settings.retention_days or max(settings.max_age, settings.thread_max_age)
    since = None if given.since is None else midnight(given.since, call.zone)
    if since is not None and settings.retention is not None:
        since = max(since, midnight(call.today - settings.retention, call.zone))
    return SyncChoice(
        refetch=settings.refetch,
        max_age=min(settings.max_age, kept),
        thread_max_age=min(settings.thread_max_age, kept),
        include_private=given.include_private,
        only=frozenset(name.removeprefix("#") for name in given.channels),
        exclude=settings.excluded_channels,
        exclude_people=settings.excluded_users,
        concurrency=settings.concurrency,
        since=since,
        join=given.join,
        kept=settings.retention_days or None,
    )


class _Told:
    """What a run reports, shown as it comes."""

    def __init__(self, call: Call) -> None:
        self._call, self._progress = call, call.progress()
        self._read = 0
        self._users: UsersDone | None = None
        self._channels: ChannelsDone | None = None
        self._finished = SyncFinished()
        self._outside: list[str] = []
        self._gaps: list[Gap] = []

    async def follow(self, run: AsyncGenerator[SyncEvent, None]) -> None:
        self._progress.show(0, 0, "reading users and channels")
        try:
            async with aclosing(run) as events:
                async for event in events:
                    self._show(event)
            if self._outside:
                self._progress.end()
                self._call.complain(_of_outside(sorted(self._outside)))
            if self._gaps:
                self._progress.end()
                self._call.complain(self._of_gaps())
        finally:
            self._progress.end()

    def _show(self, event: SyncEvent) -> None:
        progress = self._progress
        match event:
            case UsersDone():
                self._users = event
            case ChannelsDone():
                self._channels = event
            case MembersRead():
                progress.show(event.number, event.channels, f"members of #{printable(event.name)}")
            case MessagesStarted():
                progress.start(event.done)
                progress.show(event.done, event.channels, "reading messages")
                self._read = event.done
            case ChannelSynced():
                self._read += 1
                progress.show(self._read, event.channels, f"#{printable(event.name)}")
            case Outside():
                self._outside.append(printable(event.place))
            case Gap():
                self._gaps.append(event)
            case Problem() | Failed() | Stopped():
                progress.end()
                self._call.complain(printable(str(event)))
            case SyncFinished():
                self._finished = event

    def _of_gaps(self) -> str:
        """What is missing since long ago, in one line."""
        zone = self._call.zone
        until, since = (
            date_at(min(seconds), zone)
            for seconds in ([gap.until for gap in self._gaps], [gap.since for gap in self._gaps])
        )
        names = sorted(printable(gap.name) for gap in self._gaps)
        if len(names) == 1:
            read = f"#{names[0]} was last read on {until}"
        else:
            shown = _listed([f"#{name}" for name in names])
            read = f"{many(len(names), 'channel')} were last read on {until} or later ({shown})"
        limit = "max_age" if self._call.given.since is None else "--since"
        return (
            f"{read}, and {limit} reads back to {since}: what was said in between is missing; "
            f"channelstats sync messages --since {until} fills it"
        )

    @property
    def exit_code(self) -> int:
        done = self._finished
        nothing = not (self._users or self._channels or done.channels)
        if done.stopped or (done.failed and nothing):
            return NOT_DONE
        return DONE if done.ok and not done.problems else WITH_PROBLEMS

    def summary(self) -> str:
        """What was read, in one line."""
        done, parts = self._finished, []
        if self._users is not None:
            parts.append(f"{many(self._users.users, 'user')} ({self._users.new:,} new)")
        if self._channels is not None:
            parts.append(many(self._channels.channels, "channel"))
        if done.channels:
            messages, channels = many(done.messages, "message"), many(done.channels, "channel")
            parts.append(f"{messages} of {channels}")
        parts += [
            f"{number:,} {what}"
            for number, what in (
                (done.changed, "new or changed"),
                (done.edited, "edited"),
                (done.deleted, "deleted"),
            )
            if number
        ]
        if done.left_out:
            parts.append(f"not {many(done.left_out, 'archived channel')} that the bot is not in")
        if problems := done.problems + len(done.failed):
            parts.append(many(problems, "problem"))
        read = ", ".join(parts) or "nothing new"
        return f"read: {read}{'; stopped, run it again to go on' if done.stopped else ''}"


def _of_outside(names: list[str]) -> str:
    return (
        f"the bot of the token is not in {many(len(names), 'channel')}: {_listed(names)}; invite "
        "it, or join them with --join, or use the token of a user"
    )


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - _SHOWN:,} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more


COMMAND = Command(
    "sync",
    "read users, channels and messages from Slack",
    _run,
    _flags,
    (Group.COUNTING, Group.SLACK, Group.PRIVACY),
)
