"""The report on one channel, for those who are in it.

Rule: a silent channel is a title and one note; one that was silent before is all new.
"""

from channelstats.days import period_text
from channelstats.stats.messages import REACTED, REPLIED
from channelstats.stats.quantities import change
from channelstats.stats.rankings import CHANNELS_COMPARED
from channelstats.views.model import (
    Cell,
    Column,
    Kind,
    Layout,
    Part,
    Report,
    Section,
    Span,
    Table,
    Text,
    Tiles,
)
from channelstats.views.report_data import ReportData
from channelstats.views.sections import (
    REACTIONS,
    REPLIES,
    change_tile,
    coverage_note,
    days_section,
    emoji_part,
    help_section,
    hours_section,
    messages_section,
    present,
)


def channel_report(of: ReportData, cid: str, help_channel: str = "") -> Report:
    """``help_channel`` is the name of the channel to ask in."""
    silent = cid not in of.now.channels
    nothing = "Nothing was posted here in this period."
    if cid in of.groups.posters:
        nothing = f"Fewer than {of.groups.smallest} people posted here, so no figures are shown."
    note: tuple[Part, ...] = (Text(((nothing,),)),)
    return Report(
        name=f"channel-{cid}",
        title=("Report on ", Span(cid, Kind.CHANNEL)),
        period=period_text(of.period.start, of.period.last),
        lead=note if silent else coverage_note(of),
        sections=() if silent else _sections(of, cid, help_channel),
    )


def _sections(of: ReportData, cid: str, help_channel: str) -> tuple[Section, ...]:
    now = of.now
    entry = now.channels[cid]
    emoji = now.of_channel("emoji", cid).select("emoji", "n").iter_rows()
    used = emoji_part(emoji, entry.w, "The emoji used most")
    sent = Text(((Span(entry.reaction_count, Kind.COUNT, "reaction"), " sent"),))
    reacted = now.of_channel(REACTED, cid)
    replied = now.of_channel(REPLIED, cid)
    return present(
        Section(
            "At a glance",
            (*_members(of, cid), _figures(of, cid)),
            silent=True,
            rule_before=True,
        ),
        _posters(of, cid),
        Section("Reactions", (sent, used), silent=True, rule_before=True),
        messages_section(
            "most_reacted", "Most reacted messages", REACTIONS, reacted, of, channel=False
        ),
        messages_section(
            "most_replied", "Most replied messages", REPLIES, replied, of, channel=False
        ),
        hours_section(now.of_channel("hours", cid)),
        days_section(now.of_channel("days", cid)),
        help_section((), help_channel, of),
    )


def _members(of: ReportData, cid: str) -> tuple[Part, ...]:
    """Nothing where the number is not known."""
    if cid not in of.members:
        return ()
    before, after = of.members[cid]
    return (Tiles((change_tile("members", "Members", change(after, before)),)),)


def _figures(of: ReportData, cid: str) -> Tiles:
    entry, before = of.now.channels[cid], of.before.channels.get(cid)
    changes = {
        name: of.change(figure(entry), figure(before) if before else None)
        for name, figure in CHANNELS_COMPARED.items()
    }
    return Tiles(
        (
            change_tile("messages", "Messages", changes["messages"]),
            change_tile("words", "Words", changes["words"]),
            change_tile("posters", "People who posted", changes["posters"]),
            change_tile("share", "Share of all traffic", changes["share_rounded"], Kind.PERCENT),
        )
    )


def _posters(of: ReportData, cid: str) -> Section:
    columns = (
        Column("rank", "Rank", Kind.COUNT, phrase="{}."),
        Column("person", "Person", Kind.PERSON),
        Column("messages", "Messages", Kind.COUNT, phrase="{}m"),
        Column("words", "Words", Kind.COUNT, bar=True, phrase=", {}w"),
    )
    sizes = "slack_uid", "m", "w"
    found = of.before.of_channel("people", cid).select(sizes).iter_rows()
    earlier = {uid: (m, w) for uid, m, w in found}
    rows: list[tuple[Cell, ...]] = []
    posted = of.now.of_channel("people", cid).select("rank", *sizes)
    for rank, uid, m, w in posted.iter_rows():
        messages, words = earlier.get(uid, (None, None))
        rows.append((rank, uid, of.change(m, messages), of.change(w, words)))
    table = Table(
        "people", "Everybody who posted, by words", columns, tuple(rows), layout=Layout.FIELDS
    )
    return Section("Who posted", (table,), silent=True, rule_before=True)
