"""Which report goes where, and what it is made of.

Rule: nothing is guessed. The report on a channel X goes to its stats channel, `X-stats`, or to the
destination that is given; an unknown name is an error that says what to do.
"""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Final

import msgspec

from channelstats.facts import Period
from channelstats.identifiers import is_channel_id, is_user_id
from channelstats.lookup import NotFound, channel_id, user_id
from channelstats.pages.reports import ReportData, ReportKind, ReportRequest, load_report_data
from channelstats.settings import Settings
from channelstats.slack.errors import SlackError
from channelstats.slack.web_api import WebApi
from channelstats.tables import Tables
from channelstats.tables.directory import Channel, User
from channelstats.tables.exclusion import resolve_channels, resolve_people
from channelstats.tables.sending import SentKey
from keytables import Clock

SUFFIX: Final = "-stats"


GOALS: Final = "goals"
"""The kind of the message on goals and alerts, beside those of `ReportKind`."""


class Target(msgspec.Struct, frozen=True):
    """What is sent, by IDs, and in words."""

    kind: str
    subject: str
    destination: str
    words: str

    def key(self, week: Period) -> SentKey:
        return SentKey(self.kind, self.subject, week.start, week.days, self.destination)


class WeeklyPlan(msgspec.Struct, frozen=True):
    """``problems`` are what cannot be sent, and why; ``links`` is the channel that links to channel
    reports go to.
    """

    targets: tuple[Target, ...]
    problems: tuple[str, ...] = ()
    links: str = ""


def report_request(settings: Settings, kind: ReportKind, subject: str) -> ReportRequest:
    """A report with the notes and links that the settings give it."""
    return ReportRequest(
        kind, subject, settings.optin_channel, settings.help_channel, settings.dashboard_url
    )


async def report_data(
    tables: Tables, settings: Settings, period: Period, clock: Clock, *, refresh: bool = False
) -> ReportData:
    """What reports on a period are made of, as the settings count."""
    return await load_report_data(
        tables,
        period,
        settings.options,
        now=int(clock()),
        smallest_group=settings.min_group,
        refresh=refresh,
    )


async def destination_of(tables: Tables, name: str) -> str:
    """The ID of `#channel`, `channel`, `@user` or an ID; one that is in no table is taken as it is.

    :raises NotFound: nothing is called so
    """
    if is_channel_id(name) and name[0] in "CDGUW":
        return name
    return await (user_id if name.startswith("@") else channel_id)(tables, name)


async def usual_destination(
    tables: Tables, settings: Settings, kind: ReportKind, subject: str
) -> str:
    """Where a report goes when no destination is given.

    :raises NotFound: there is no such place
    """
    if kind is ReportKind.USER:
        return subject
    if kind is ReportKind.CHANNEL:
        channels = await tables.channels.all()
        return _stats_channel(_by_name(channels), channels[subject]).slack_cid
    option = "report_channel" if kind is ReportKind.GLOBAL else "brief_channel"
    if not (name := getattr(settings, option)):
        raise NotFound(f"where to? Give --destination, or set {option}")
    return await channel_id(tables, name)


def _stats_channel(by_name: Mapping[str, Channel], channel: Channel) -> Channel:
    """Where reports on a channel go; nothing private becomes public.

    :raises NotFound: there is no such channel
    """
    name = f"{channel.friendly_name}{SUFFIX}"
    stats = by_name.get(name)
    if stats is None:
        raise NotFound(
            f"there is no channel #{name} for the report on #{channel.name}: make it in Slack and "
            "run channelstats sync channels, or give --destination"
        )
    if stats.is_archived:
        raise NotFound(f"#{name} is archived: give --destination")
    if channel.is_private and not stats.is_private:
        raise NotFound(f"#{channel.name} is private and #{name} is not: give --destination")
    return stats


def _by_name(channels: Mapping[str, Channel]) -> dict[str, Channel]:
    """Channels by name; of several of one name one that is not archived."""
    archived_first = sorted(
        channels.values(), key=lambda channel: (not channel.is_archived, channel.slack_cid)
    )
    return {channel.friendly_name: channel for channel in archived_first if channel.friendly_name}


# ── every week ───────────────────────────────────────────────────────────────────────────────────


async def weekly_plan(tables: Tables, settings: Settings, api: WebApi | None = None) -> WeeklyPlan:
    """Everything that goes out every week. People get a report on themselves who are in the channel
    for it now, as ``api`` says: who has left gets no more. Without it, who was when it was read
    last.
    """
    channels, users = await tables.channels.all(), await tables.users.all()
    problems: list[str] = []
    targets: list[Target] = []
    for kind, name in (
        (ReportKind.GLOBAL, settings.report_channel),
        (ReportKind.BRIEF, settings.brief_channel),
    ):
        if cid := await _known(tables, name, f"{kind} report", problems):
            targets.append(Target(kind, "", cid, f"{kind} report to #{channels[cid].name}"))
    excluded = resolve_channels(settings.exclude_channels, channels)
    targets += _of_channels(channels, excluded)
    links = await _known(tables, settings.channel_stats, "links to channel reports", problems)
    opted_in = set(await _members(tables, settings, api, problems))
    targets += _of_users(users, opted_in - resolve_people(settings.exclude_users, users))
    if settings.goals or settings.alerts:
        targets += [
            Target(GOALS, "", target.destination, f"goals and alerts to {target.words.split()[-1]}")
            for target in targets
            if target.kind is ReportKind.GLOBAL
        ]
    return WeeklyPlan(tuple(targets), tuple(problems), links)


def _of_channels(channels: Mapping[str, Channel], excluded: frozenset[str]) -> Iterator[Target]:
    """Reports on active channels that have an active stats channel."""
    by_name = _by_name(channels)
    for _, channel in sorted(by_name.items()):
        if channel.is_archived or channel.slack_cid in excluded:
            continue
        with suppress(NotFound):
            stats = _stats_channel(by_name, channel)
            words = f"report on #{channel.name} to #{stats.name}"
            yield Target(ReportKind.CHANNEL, channel.slack_cid, stats.slack_cid, words)


def _of_users(users: Mapping[str, User], opted_in: set[str]) -> Iterator[Target]:
    """Reports to people; bots, the deactivated and the unknown get none."""
    for uid in sorted(opted_in & users.keys()):
        user = users[uid]
        if is_user_id(uid) and not (user.is_bot or user.deleted):
            yield Target(ReportKind.USER, uid, uid, f"report to @{user.name}")


async def _known(tables: Tables, name: str, what: str, problems: list[str]) -> str:
    """The ID of a channel; "" where none is set, or with a problem where there is none."""
    try:
        return await channel_id(tables, name) if name else ""
    except NotFound as error:
        problems.append(f"{what}: {error}")
        return ""


async def _members(
    tables: Tables, settings: Settings, api: WebApi | None, problems: list[str]
) -> list[str]:
    """Who is in the channel for user reports."""
    cid = await _known(tables, settings.optin_channel, "user reports", problems)
    if api is None:
        return (await tables.bulk.get(cid) or "").split(",") if cid else []
    try:
        pages = [page async for page in api.members(cid)] if cid else []
    except SlackError as error:
        problems.append(f"user reports: who wants one is not known: {error}")
        return []
    return [uid for page in pages for uid in page.items]
