"""The report on one person, for that person.

Rule: it is about what this person did and what others did to this person, and about nobody else.
"""

from collections.abc import Mapping
from typing import Final

from channelstats.days import ago_text, period_text
from channelstats.stats.messages import REACTED, REPLIED
from channelstats.stats.rankings import AUTHORS_COMPARED
from channelstats.views.model import (
    Column,
    Kind,
    Layout,
    Line,
    Link,
    Part,
    Report,
    Section,
    Span,
    Table,
    Text,
    Tiles,
)
from channelstats.views.report_data import ReportData, plain
from channelstats.views.sections import (
    REACTIONS,
    REPLIES,
    TOP,
    change_tile,
    channel_called,
    coverage_note,
    days_section,
    emoji_part,
    help_section,
    hours_section,
    messages_section,
    number_tile,
    present,
    text_tile,
)

GROUPS: Final[Mapping[str, str]] = {
    "reactions_from": "Who reacts to you",
    "reacted_to": "Whom you react to",
    "reactions_combined": "Reactions, both ways",
    "author_thread_responded": "Whose threads you answer in",
    "thread_responders": "Who answers in your threads",
    "threads_combined": "Threads, both ways",
    "you_mentioned": "Whom you mention",
    "mentioned_you": "Who mentions you",
    "mentions_combined": "Mentions, both ways",
}
"""The people groups in their order."""


def user_report(
    of: ReportData, uid: str, optin_channel: str = "", help_channel: str = ""
) -> Report:
    """``optin_channel`` is the name of the channel that whoever wants this report joins,
    ``help_channel`` of the one to ask in.
    """
    now = of.now
    period = Text(((period_text(of.period.start, of.period.last),),))
    author = now.authors.get(uid)
    emoji = now.of_person("emoji", uid).select("emoji", "n")
    number = int(emoji["n"].sum())
    received = Text(((Span(number, Kind.COUNT, "reaction"), " received"),))
    rates = emoji_part(emoji.iter_rows(), author.w if author else 0, "The emoji you received most")
    reacted = now.of_person(REACTED, uid)
    replied = now.of_person(REPLIED, uid)
    return Report(
        name=f"user-{uid}",
        title=("Report for ", Span(uid, Kind.PERSON)),
        period="",
        lead=_account(of, uid),
        sections=present(
            Section(
                "This period",
                (period, _figures(of, uid), *coverage_note(of)),
                silent=True,
                rule_before=True,
            ),
            _channels(of, uid),
            hours_section(now.of_person("hours", uid)),
            days_section(now.of_person("days", uid)),
            messages_section(
                "most_reacted",
                "Your most reacted messages",
                REACTIONS,
                reacted,
                of,
                author=False,
            ),
            messages_section(
                "most_replied", "Your most replied messages", REPLIES, replied, of, author=False
            ),
            Section("Reactions you received", (received, rates), silent=True),
            *_groups(of, uid),
            help_section(_why(optin_channel, of), help_channel, of),
        ),
    )


def _why(optin_channel: str, of: ReportData) -> Line:
    joined: str | Span = "the channel for personal reports"
    if optin_channel:
        joined = channel_called(optin_channel, of)
    return ("You get this because you are in ", joined, ". Leave it to get no more of them.")


def _account(of: ReportData, uid: str) -> tuple[Part, ...]:
    zone, made_at = of.period.zone, of.made_at
    created = of.created.get(uid)
    made = ago_text(created, made_at, zone) if created else "not known"
    first: Line = ("First message: not known",)
    if post := of.first_message(uid):
        cid, message, at = post
        link = Span(Link(message, ago_text(at, made_at, zone)), Kind.MESSAGE)
        first = ("First message: ", link, " in ", Span(cid, Kind.CHANNEL))
    return Text(((f"Account created: {made}",),)), Text((first,))


def _figures(of: ReportData, uid: str) -> Tiles:
    author, before = of.now.authors.get(uid), of.before.authors.get(uid)
    if author is None:
        return Tiles((number_tile("words", "Words", 0), number_tile("messages", "Messages", 0)))
    changes = {
        name: of.change(figure(author), figure(before) if before else None)
        for name, figure in AUTHORS_COMPARED.items()
    }
    posters = f" of {of.now.measures.volume.posters:,}"
    rank = text_tile("rank", "Rank by words", f"none{posters}")
    if author.rank:
        rank = number_tile("rank", "Rank by words", author.rank, Kind.ORDINAL, (posters,))
    share, threads = changes["percent_of_words"], changes["thread_messages"]
    return Tiles(
        (
            change_tile("words", "Words", changes["words"]),
            change_tile("messages", "Messages", changes["messages"]),
            rank,
            change_tile("share", "Of all words", share, Kind.PERCENT),
            change_tile("thread_messages", "Replies to your threads", threads),
        )
    )


def _channels(of: ReportData, uid: str) -> Section:
    columns = (
        Column("channel", "Channel", Kind.CHANNEL, phrase="{}"),
        Column("rank", "Rank in channel", Kind.ORDINAL, phrase=" ({})"),
        Column("messages", "Messages", Kind.COUNT, phrase="{}m"),
        Column("words", "Words", Kind.COUNT, bar=True, phrase=", {}w"),
    )
    found = of.now.of_person("channels", uid).select("slack_cid", "rank", "m", "w")
    parts: tuple[Part, ...] = (Text((("You posted in no channel.",),)),)
    if found.height:
        rows = tuple(found.iter_rows())
        table = Table("channels", "Your channels, by words", columns, rows, layout=Layout.FIELDS)
        parts = (table,)
    return Section("Your channels", parts, silent=True, rule_before=True, rule_after=True)


def _groups(of: ReportData, uid: str) -> tuple[Section, ...]:
    """The groups that are not empty. Who has no entry before is compared with nothing done."""
    columns = (
        Column("person", "Person", Kind.PERSON, phrase="{}"),
        Column("times", "Times", Kind.COUNT, bar=True, phrase="{}"),
    )
    found = []
    for name, title in GROUPS.items():
        people = of.now.of_person(name, uid).select("other", "n")
        if people.is_empty():
            continue
        total, distinct = plain(int(people["n"].sum())), plain(people.height)
        if uid in of.now.authors:
            earlier = of.before.of_person(name, uid if uid in of.before.authors else "")
            total = of.change(int(people["n"].sum()), int(earlier["n"].sum()))
            distinct = of.change(people.height, earlier.height)
        facts = Tiles(
            (
                change_tile("total", "Times", total),
                change_tile("people", "Different people", distinct),
            )
        )
        rows = tuple(people.head(TOP).iter_rows())
        found.append(
            Section(title, (facts, Table(name, title, columns, rows, layout=Layout.FIELDS)))
        )
    return tuple(found)
