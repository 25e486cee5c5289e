"""The report on one person, for that person.

Rule: it is about what this person did and what others did to this person, and about nobody else.
"""

from collections.abc import Mapping
from typing import Final

from channelstats.render.names import Directory
from channelstats.render.words import ago_text, ordinal, period_text
from channelstats.reports.model import (
    Block,
    Column,
    Fact,
    Facts,
    Figure,
    Layout,
    Line,
    Link,
    Person,
    Place,
    Report,
    Section,
    Span,
    Table,
    Text,
    plain,
)
from channelstats.reports.sections import (
    TOP,
    channel_called,
    days_section,
    emoji_block,
    fact,
    help_section,
    hours_section,
    messages_section,
    number,
    present,
)
from channelstats.reports.view import EnrichedUser, View

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
    of: View, directory: Directory, uid: str, optin_channel: str = "", help_channel: str = ""
) -> Report:
    """``optin_channel`` is the name of the channel that whoever wants this report joins,
    ``help_channel`` of the one to ask in.
    """
    own = of.enriched_user.get(uid, EnrichedUser())
    stats = of.user_stats.get(uid)
    period = period_text(of.start_date, of.end_date)
    days, hours = (stats.posting_days, stats.posting_hours) if stats else ({}, {})
    received: Line = (Figure(plain(own.reaction_count), "reaction"), " received")
    emoji = emoji_block(own.reaction_popularity, own.emoji_rate, "The emoji you received most")
    return Report(
        name=f"user-{uid}",
        title=("Report for ", Person(uid)),
        period="",
        lead=_account(of, directory, uid),
        sections=present(
            Section(
                "This period", (Text(((period,),)), _talk(of, uid)), silent=True, rule_before=True
            ),
            _channels(own),
            hours_section(hours),
            days_section(days),
            messages_section(
                "Your most reacted messages", "reaction", own.reactions, of, directory, author=False
            ),
            messages_section(
                "Your most replied messages", "reply", own.replies, of, directory, author=False
            ),
            Section("Reactions you received", (Text((received,)), emoji), silent=True),
            *_groups(of, uid),
            help_section(_why(optin_channel, directory), help_channel, directory),
        ),
    )


def counts_of(own: EnrichedUser) -> dict[str, dict[str, int]]:
    """The people of each group and how often."""
    return {
        "reactions_from": own.reactions_from,
        "reacted_to": own.reacted_to,
        "reactions_combined": own.reactions_combined,
        "author_thread_responded": own.author_thread_responded,
        "thread_responders": own.thread_responders,
        "threads_combined": own.threads_combined,
        "you_mentioned": own.you_mentioned,
        "mentioned_you": own.mentioned_you,
        "mentions_combined": own.mentions_combined,
    }


def _why(optin_channel: str, directory: Directory) -> Line:
    joined: Span = "the channel for personal reports"
    if optin_channel:
        joined = channel_called(optin_channel, directory)
    return ("You get this because you are in ", joined, ". Leave it to get no more of them.")


def _account(of: View, directory: Directory, uid: str) -> tuple[Block, ...]:
    created = directory.created.get(uid)
    made = ago_text(created, of.generated_at, of.zone) if created else "not known"
    first: Line = ("First message: not known",)
    if post := directory.first_posts.get(uid):
        when = ago_text(post.ts, of.generated_at, of.zone)
        url = directory.permalink(post.slack_cid, post.message_id, None)
        first = ("First message: ", Link(url, when), " in ", Place(post.slack_cid))
    return Text(((f"Account created: {made}",),)), Text((first,))


def _talk(of: View, uid: str) -> Facts:
    now, stats = of.compared.users.get(uid), of.user_stats.get(uid)
    if now is None or stats is None:
        return Facts((Fact("Words", number(0)), Fact("Messages", number(0))))
    rank = ordinal(stats.rank) if stats.rank else "none"
    return Facts(
        (
            fact("Words", now.words),
            fact("Messages", now.messages),
            Fact("Rank by words", (f"{rank} of {len(of.users):,}",)),
            fact("Of all words", now.percent_of_words, percentage=True),
            fact("Replies by others in your threads", now.thread_messages),
        )
    )


def _channels(own: EnrichedUser) -> Section:
    columns = (
        Column("Channel", "{}", numeric=False),
        Column("Rank in channel", " ({})", numeric=False),
        Column("Messages", "{}m"),
        Column("Words", ", {}w", bar=True),
    )
    rows = tuple(
        ((Place(cid),), (ordinal(of.rank),), number(of.messages), number(of.words))
        for cid, of in own.enriched_channels.items()
    )
    blocks: tuple[Block, ...] = (Text((("You posted in no channel.",),)),)
    if rows:
        blocks = (Table("Your channels, by words", columns, rows, Layout.FIELDS),)
    return Section("Your channels", blocks, silent=True, rule_before=True, rule_after=True)


def _groups(of: View, uid: str) -> tuple[Section, ...]:
    """The groups that are not empty."""
    now, own = of.compared.users.get(uid), of.enriched_user.get(uid, EnrichedUser())
    counts = counts_of(own)
    found = []
    for name, title in GROUPS.items():
        people = counts[name]
        if not people:
            continue
        total, distinct = plain(sum(people.values())), plain(len(people))
        if now is not None:
            total, distinct = now.people[name].total, now.people[name].people
        columns = (
            Column("Person", "{}", numeric=False),
            Column("Times", "{}", bar=True),
        )
        rows = tuple(((Person(other),), number(n)) for other, n in list(people.items())[:TOP])
        facts = Facts((fact("Times", total), fact("Different people", distinct)))
        table = Table(title, columns, rows, Layout.FIELDS)
        found.append(Section(title, (facts, table)))
    return tuple(found)
