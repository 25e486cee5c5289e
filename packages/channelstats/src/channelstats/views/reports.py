"""Every report by its kind; those on one channel and on one person.

Rule: a silent channel is a title and one note; one that was silent before is all new. The report on
a person is about what this person did and what others did to them, and about nobody else.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final
from urllib.parse import urlencode

import msgspec

from channelstats.days import ago_text, period_text
from channelstats.identifiers import timestamp
from channelstats.stats.quantities import change
from channelstats.views.components import table
from channelstats.views.figures import RANK_IN_CHANNEL
from channelstats.views.model import (
    Choice,
    Kind,
    Line,
    Link,
    Page,
    Part,
    Section,
    Span,
    Text,
    Tiles,
)
from channelstats.views.report_data import MOVED, SIZES, ReportData
from channelstats.views.sections import (
    TOP,
    channel_called,
    coverage_note,
    emoji_part,
    help_section,
    messages_sections,
    newest_text,
    present,
    tile,
    times_sections,
)
from channelstats.views.workspace_report import workspace_report

GROUPS: Final[Mapping[str, str]] = {
    "reactions_from": "Who reacts to you",
    "reacted_to": "Who you react to",
    "reactions_combined": "Reactions, both ways",
    "author_thread_responded": "Whose threads you reply in",
    "thread_responders": "Who replies in your threads",
    "threads_combined": "Threads, both ways",
    "you_mentioned": "Who you mention",
    "mentioned_you": "Who mentions you",
    "mentions_combined": "Mentions, both ways",
}
"""The people groups in their order."""


class ReportKind(StrEnum):
    GLOBAL = "global"
    BRIEF = "brief"
    CHANNEL = "channel"
    USER = "user"


class ReportRequest(msgspec.Struct, frozen=True):
    """A report: of which kind and, for a channel or a user, on which ID. Whoever joins
    ``optin_channel`` gets reports on themselves; in ``help_channel`` people may ask;
    ``dashboard_url`` is where the dashboard is.
    """

    kind: ReportKind
    subject: str = ""
    optin_channel: str = ""
    help_channel: str = ""
    dashboard_url: str = ""

    @property
    def name(self) -> str:
        """What its files are called."""
        return f"{self.kind}-{self.subject}" if self.subject else str(self.kind)


def title_of(wanted: ReportRequest) -> Line:
    if wanted.kind is ReportKind.CHANNEL:
        return ("Report on ", Span(wanted.subject, Kind.CHANNEL))
    if wanted.kind is ReportKind.USER:
        return ("Report for ", Span(wanted.subject, Kind.PERSON))
    return ("Workspace report",)


def page_of(
    wanted: ReportRequest,
    of: ReportData,
    lead: tuple[Part, ...],
    sections: tuple[Section, ...] = (),
    dashboard_url: str = "",
) -> Page:
    """A page on what a report is about; ``dashboard_url`` is where the dashboard is, if known."""
    period, about = of.period, dict[str, str]()
    if wanted.subject:
        name = "channel" if wanted.kind is ReportKind.CHANNEL else "person"
        about = {name: wanted.subject}
    address, days = "", {"from": period.start.isoformat(), "to": period.last.isoformat()}
    if dashboard_url:
        address = f"{dashboard_url}?{urlencode({**days, **about})}"
    return Page(
        name=wanted.name,
        title=title_of(wanted),
        choice=Choice(period.start, period.last, about.get("channel", ""), about.get("person", "")),
        before=(period.previous.start, period.previous.last),
        period=period_text(period.start, period.last),
        lead=lead,
        sections=sections,
        dashboard=address,
    )


def report_on(wanted: ReportRequest, of: ReportData) -> Page:
    """The whole report; ``of`` serves for many."""
    if wanted.kind is ReportKind.CHANNEL:
        return page_of(wanted, of, *_on_channel(of, wanted))
    if wanted.kind is ReportKind.USER:  # whose first part is of all time
        found = page_of(wanted, of, _account(of, wanted.subject), _on_user(of, wanted))
        return msgspec.structs.replace(found, period="")
    return page_of(wanted, of, *workspace_report(of, brief=wanted.kind is ReportKind.BRIEF))


# ── a channel ────────────────────────────────────────────────────────────────────────────────────


def silence_note(of: ReportData, cid: str) -> str:
    """Why there are no figures of a channel."""
    if cid in of.groups.posters:
        smallest = of.groups.smallest
        return f"Fewer than {smallest} people posted here, so no figures are shown."
    return f"Nothing was posted here in this period. {newest_text(of)}".strip()


def _on_channel(
    of: ReportData, wanted: ReportRequest
) -> tuple[tuple[Part, ...], tuple[Section, ...]]:
    cid, help_channel = wanted.subject, wanted.help_channel
    for figures in of.of_channel("figures", cid).iter_rows(named=True):
        return coverage_note(of), _channel_sections(of, cid, figures, help_channel)
    return (Text(((silence_note(of, cid),),)),), ()


def _channel_sections(
    of: ReportData, cid: str, figures: dict[str, Any], help_channel: str
) -> tuple[Section, ...]:
    used = emoji_part(of.of_channel("emoji", cid)[:, 1:], "Most used emoji", of.now)
    sent = Text(((Span(figures["reaction_count"], Kind.COUNT, "reaction"), " sent"),))
    glance: list[Part] = []
    if cid in of.members:
        before, after = of.members[cid]
        glance.append(Tiles((tile("members", change(after, before)),)))
    numbers = (
        tile("messages", figures["messages"]),
        tile("words", figures["words"]),
        tile("posters", figures["posters"], "People who posted"),
        tile("share", figures["share_rounded"], "Share of all words"),
    )
    glance.append(Tiles(numbers))
    posted = (
        of.of_channel("people", cid)
        .select("rank", "slack_uid", "messages", "words")
        .rename({"slack_uid": "person"})
    )
    people = table(
        "people",
        "Everybody who posted, by words",
        posted,
        bar="words",
    )
    moved = tuple(tile(name, figures[name]) for name in MOVED)
    return present(
        Section("At a glance", tuple(glance)),
        Section("Files, joins and leaves", (Tiles(moved),)),
        Section("Who posted", (people,)),
        Section("Reactions", (sent, used)),
        *messages_sections(lambda count: of.of_channel(count, cid), of, without="channel"),
        *times_sections(of.of_channel("hours", cid)[:, 1:], of.of_channel("days", cid)[:, 1:]),
        help_section((), help_channel, of),
    )


# ── a person ─────────────────────────────────────────────────────────────────────────────────────


def _on_user(of: ReportData, wanted: ReportRequest) -> tuple[Section, ...]:
    uid = wanted.subject
    figures = next(of.of_person("figures", uid).iter_rows(named=True), None)
    period = Text(((period_text(of.period.start, of.period.last),),))
    emoji = of.of_person("emoji", uid)[:, 1:]
    received = Text(((Span(int(emoji["times"].sum()), Kind.COUNT, "reaction"), " received"),))
    rates = emoji_part(emoji, "The emoji you received most often", of.now)
    return present(
        Section(
            "This period",
            (period, _user_tiles(of, figures), *coverage_note(of)),
        ),
        _channels(of, uid),
        *times_sections(of.of_person("hours", uid)[:, 1:], of.of_person("days", uid)[:, 1:]),
        *messages_sections(
            lambda count: of.of_person(count, uid), of, whose="Your", without="author"
        ),
        Section("Reactions you received", (received, rates)),
        *_groups(of, uid),
        help_section(why_you_get_this(wanted.optin_channel, of), wanted.help_channel, of),
    )


def why_you_get_this(optin_channel: str, of: ReportData) -> Line:
    joined: str | Span = "the channel for personal reports"
    if optin_channel:
        joined = channel_called(optin_channel, of)
    return ("You get this because you are in ", joined, ". Leave it to stop getting them.")


def _account(of: ReportData, uid: str) -> tuple[Part, ...]:
    zone, made_at = of.period.zone, of.made_at
    created = of.created.get(uid)
    made = ago_text(created, made_at, zone) if created else "not known"
    first: Line = ("First message: not known",)
    for ts, cid in of.of_person("first_posts", uid)[["ts", "slack_cid"]].iter_rows():
        message = f"{cid}/{timestamp(ts)}/"
        link = Span(
            Link(message=message, text=ago_text(ts // 1_000_000, made_at, zone)), Kind.MESSAGE
        )
        first = ("First message: ", link, " in ", Span(cid, Kind.CHANNEL))
    return Text(((f"Account created: {made}",),)), Text((first,))


def _user_tiles(of: ReportData, figures: dict[str, Any] | None) -> Tiles:
    if figures is None:
        return Tiles((tile("words", 0), tile("messages", 0)))
    posters = f" of {of.now.volume.posters:,}"
    title = "Rank by words"
    rank = tile("rank", None, title, Kind.TEXT, (f"none{posters}",))
    if figures["rank"]:
        rank = tile("rank", figures["rank"], title, Kind.ORDINAL, (posters,))
    return Tiles(
        (
            tile("words", figures["words"]),
            tile("messages", figures["messages"]),
            rank,
            tile("share", figures["percent_of_words"], "Share of all words"),
            tile("thread_messages", figures["thread_messages"], "Replies to your threads"),
        )
    )


def _channels(of: ReportData, uid: str) -> Section:
    found = of.of_person("channels", uid)
    parts: tuple[Part, ...] = (Text((("You posted in no channel.",),)),)
    if found.height:
        parts = (
            table(
                "channels",
                "Your channels, by words",
                found[["channel", "rank", "messages", "words"]],
                {"rank": RANK_IN_CHANNEL},
                bar="words",
            ),
        )
    return Section("Your channels", parts)


def _groups(of: ReportData, uid: str) -> tuple[Section, ...]:
    """The groups that are not empty."""
    changes = next(of.of_person("groups", uid).iter_rows(named=True), None)
    found = []
    for name, title in GROUPS.items():
        people = of.of_person(name, uid)[:, 1:]
        if people.is_empty():
            continue
        total, distinct = int(people["times"].sum()), people.height
        if changes is not None:
            total, distinct = (changes[f"{name}_{size}"] for size in SIZES)
        facts = Tiles((tile("total", total, "Times"), tile("people", distinct, "Different people")))
        most = people.head(TOP)
        listed = table(name, title, most, bar="times")
        found.append(Section(title, (facts, listed)))
    return tuple(found)
