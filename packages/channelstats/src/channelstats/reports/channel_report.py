"""The report on one channel, for those who are in it.

Rule: a silent channel is a title and one note; one that was silent before is all new.
"""

from channelstats.render.names import Directory
from channelstats.render.words import period_text
from channelstats.reports.model import (
    Block,
    Column,
    Facts,
    Figure,
    Layout,
    Line,
    Person,
    Place,
    Report,
    Section,
    Table,
    Text,
    plain,
)
from channelstats.reports.sections import (
    days_section,
    emoji_block,
    fact,
    help_section,
    hours_section,
    messages_section,
    present,
)
from channelstats.reports.view import View
from channelstats.stats.compare import change


def channel_report(of: View, directory: Directory, cid: str, help_channel: str = "") -> Report:
    """``help_channel`` is the name of the channel to ask in."""
    silent = cid not in of.channels
    note: tuple[Block, ...] = (Text((("Nothing was posted here in this period.",),)),)
    return Report(
        name=f"channel-{cid}",
        title=("Report on ", Place(cid)),
        period=period_text(of.start_date, of.end_date),
        lead=note if silent else (),
        sections=() if silent else _sections(of, directory, cid, help_channel),
    )


def _sections(of: View, directory: Directory, cid: str, help_channel: str) -> tuple[Section, ...]:
    enriched = of.enriched_channel[cid]
    sent: Line = (Figure(plain(enriched.reaction_count), "reaction"), " sent")
    emoji = emoji_block(enriched.reactions, enriched.emoji_rate, "The emoji used most")
    return present(
        Section(
            "At a glance",
            (*_members(directory, cid), _talk(of, cid)),
            silent=True,
            rule_before=True,
        ),
        _posters(of, cid),
        Section("Reactions", (Text((sent,)), emoji), silent=True, rule_before=True),
        messages_section(
            "Most reacted messages", "reaction", enriched.most_reacted, of, directory, channel=False
        ),
        messages_section(
            "Most replied messages", "reply", enriched.most_replied, of, directory, channel=False
        ),
        hours_section(enriched.posting_hours),
        days_section(enriched.posting_days),
        help_section((), help_channel, directory),
    )


def _members(directory: Directory, cid: str) -> tuple[Block, ...]:
    """Nothing where the number is not known."""
    if cid not in directory.members:
        return ()
    before, after = directory.members[cid]
    return (Facts((fact("Members", change(after, before)),)),)


def _talk(of: View, cid: str) -> Facts:
    now = of.compared.channels[cid]
    return Facts(
        (
            fact("Messages", now.messages),
            fact("Words", now.words),
            fact("People who posted", now.posters),
            fact("Share of all traffic", now.share_rounded, percentage=True),
        )
    )


def _posters(of: View, cid: str) -> Section:
    columns = (
        Column("Rank", "{}.", numeric=False),
        Column("Person", " {}", numeric=False),
        Column("Messages", "{}m"),
        Column("Words", ", {}w", bar=True),
    )
    rows = tuple(
        ((str(rank),), (Person(uid),), (Figure(now.messages),), (Figure(now.words),))
        for rank, (uid, now) in enumerate(of.compared.channels[cid].users.items(), 1)
    )
    table = Table("Everybody who posted, by words", columns, rows, Layout.FIELDS)
    return Section("Who posted", (table,), silent=True, rule_before=True)
