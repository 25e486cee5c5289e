"""The report on a whole workspace, full or brief.

Rule: the order is that of the original; what it did not have is marked as beyond it.
"""

from typing import Final

from channelstats.render.names import Directory
from channelstats.render.words import duration_text, hour_text, local, period_text
from channelstats.reports.model import (
    WEEKDAYS,
    Bar,
    Block,
    Column,
    Columns,
    Fact,
    Facts,
    Figure,
    HeatMap,
    Histogram,
    Layout,
    Line,
    Person,
    Place,
    Report,
    Section,
    Table,
    plain,
)
from channelstats.reports.sections import (
    emoji_block,
    fact,
    messages_section,
    number,
    present,
    share,
)
from channelstats.reports.view import View
from channelstats.stats.values import Change

_FULL: Final = 20
_BRIEF: Final = 10
_HOURS: Final = range(24)
_AWAKE: Final = 12
"""Channels in the map of hours."""


def workspace_report(of: View, directory: Directory, *, brief: bool = False) -> Report:
    """The global report; ``brief`` is its headline only."""
    sections = present(
        _channels(of, brief=brief),
        _people(of, brief=brief),
        _days(of),
        None if brief else _zones(of),
        None if brief else _hours(of),
        None if brief else _conversation(of),
        Section(
            "Top emoji",
            (emoji_block(of.reaction, of.emoji_rate, "The emoji used most"),),
            rule_before=True,
            rule_after=True,
        ),
        messages_section("Most reacted messages", "reaction", of.reaction_count, of, directory),
        messages_section("Most replied messages", "reply", of.reply_count, of, directory),
    )
    return Report(
        name="brief" if brief else "global",
        title=("Workspace report",),
        period=period_text(of.start_date, of.end_date),
        lead=(_who(of, directory), _what(of)),
        sections=sections,
    )


def _who(of: View, directory: Directory) -> Facts:
    now = of.compared.statistics
    return Facts(
        (
            Fact(
                "Posters",
                (Figure(now["posters"]), " of ", Figure(plain(now["active_users"]["cur"]))),
            ),
            Fact("Posting", share(now["% posting"]["cur"])),
            Fact("Median messages of a poster", number(now["median messages"]["cur"])),
            fact("Top ten's share of messages", now["topten messages"], percentage=True),
            fact("People who make half of all words", now["50percent of words"]),
            fact("First-time posters", now["first-time posters"]),
            *_history(of, directory),
        )
    )


def _history(of: View, directory: Directory) -> tuple[Fact, ...]:
    """Where history begins within the period, as everybody looks new then."""
    if not directory.first_posts:
        return ()
    first = local(min(post.ts for post in directory.first_posts.values()), of.zone).date()
    if not of.start_date <= first.isoformat() <= of.end_date:
        return ()
    return (Fact("History known since", (first.isoformat(),)),)


_WHAT: Final = {
    "Words": "words",
    "Messages": "messages",
    "Pages": "pages",
    "Words per message": "words per message",
    "Words per poster": "words per poster",
    "Messages per poster": "messages per poster",
}


def _what(of: View) -> Facts:
    now = of.compared.statistics
    return Facts(tuple(fact(name, now[key]) for name, key in _WHAT.items()))


def _channels(of: View, *, brief: bool) -> Section:
    most = _BRIEF if brief else _FULL
    columns = [
        Column("Rank", "{}."),
        Column("Channel", " {}", numeric=False),
        Column("Posters", " {}"),
        Column("Members", "/{} posters"),
        Column("Words", ", {}w", bar=True),
        Column("Messages", ", {}m"),
    ]
    if not brief:
        columns += [
            Column("Words per poster", ", {} words/poster"),
            Column("Of traffic", ", {} of traffic"),
            Column("Cumulative", ", {} cumulative"),
        ]
    rows = []
    for rank, cid in enumerate(list(of.channels)[:most], 1):
        stats, now = of.channel_stats[cid], of.compared.channels[cid]
        cells: list[Line] = [
            (str(rank),),
            (Place(cid), " (new)") if stats.new else (Place(cid),),
            (Figure(now.posters),),
            ("?",) if stats.members is None else number(stats.members),
            (Figure(now.words),),
            (Figure(now.messages),),
            (Figure(now.words_per_poster),),
            (Figure(now.percent, percentage=True),),
            (Figure(now.cpercent, percentage=True),),
        ]
        rows.append(tuple(cells[: len(columns)]))
    title = f"Top {most} channels"
    return _ranking(title, len(rows), len(of.channels), "channels with messages", columns, rows)


def _people(of: View, *, brief: bool) -> Section:
    most = _BRIEF if brief else _FULL
    columns = [
        Column("Rank", "{}."),
        Column("Person", " {}", numeric=False),
        Column("Words", " {}w", bar=True),
        Column("Messages", ", {}m"),
        Column("Reactions per 100 words", ", {} reactions/100 words"),
    ]
    if not brief:
        columns += [
            Column("Others in own threads", ", {} by others in own threads"),
            Column("Of traffic", ", {} of traffic"),
            Column("Cumulative", ", {} cumulative"),
        ]
    rows = []
    for rank, uid in enumerate(of.authors_of_half[:most], 1):
        now = of.compared.users[uid]
        cells: list[Line] = [
            (str(rank),),
            (Person(uid),),
            (Figure(now.words),),
            (Figure(now.messages),),
            (Figure(now.rphw),),
            (Figure(now.thread_messages),),
            (Figure(now.percent_of_words, percentage=True),),
            (Figure(now.cum_percent_of_words, percentage=True),),
        ]
        rows.append(tuple(cells[: len(columns)]))
    title = f"Top {most} people"
    known = len(of.authors_of_half)
    return _ranking(title, len(rows), known, "people who make half of all words", columns, rows)


def _ranking(
    title: str,
    shown: int,
    known: int,
    what: str,
    columns: list[Column],
    rows: list[tuple[Line, ...]],
) -> Section:
    """How many there are is said, as there may be fewer than the title promises."""
    blocks: tuple[Block, ...] = ()
    if rows:
        blocks = (Table(f"{title}, by words", tuple(columns), tuple(rows), Layout.LINES),)
    return Section(title, blocks, rule_before=True, note=f"{shown} of {known:,} {what}")


def _days(of: View) -> Section:
    columns = (
        Column("Day", "{}", numeric=False),
        Column("Words", " {}", bar=True),
        Column("Messages", " in {}"),
    )
    days = {name: of.compared.user_weekday[key] for key, name in WEEKDAYS.items()}
    rows = tuple(
        ((name,), (Figure(day.words, "word"),), (Figure(day.messages, "message"),))
        for name, day in days.items()
    )
    chart = Columns(
        "Messages by day, local time: this period and the one before",
        tuple(name[:3] for name in days),
        tuple(day.messages["cur"] for day in days.values()),
        tuple(_before(day.messages) for day in days.values()),
    )
    table = Table("Days, local time", columns, rows, Layout.LIST)
    return Section("Days of the week", (chart, table), rule_before=True)


def _before(change: Change) -> float:
    return change["prev"] or 0


def _zones(of: View) -> Section:
    columns = (
        Column("Rank", "{}."),
        Column("Time zone", " {}", numeric=False),
        Column("Posters", " {} posters"),
        Column("Words", ", {}w", bar=True),
        Column("Messages", ", {}m"),
    )
    rows = tuple(
        ((str(rank),), (tz,), number(len(of.posters_per_timezone[tz])), number(words), number(sent))
        for rank, (tz, (sent, words)) in enumerate(of.timezone.items(), 1)
    )
    blocks: tuple[Block, ...] = ()
    if rows:
        blocks = (Table("Time zones, by words", columns, rows, Layout.LINES),)
    return Section("Time zones", blocks, rule_before=True, note=str(len(rows)))


def _hours(of: View) -> Section:
    """The mean share of each hour, and beside it what was really said in it."""
    caption = "Mean share of a person's messages in each hour, Monday to Friday, local time"
    bars = []
    for hour in _HOURS:
        sent, words = of.user_weekday_hour.get(str(hour), (0, 0))
        share_of_hour = of.weekday_activity_percentage[str(hour)]
        bars.append(Bar(hour_text(hour), share_of_hour, sent, words))
    awake = list(of.channels)[:_AWAKE]
    heat = HeatMap(
        "When the largest channels are awake: messages by hour, Monday to Friday, local time",
        "Channel",
        tuple((Place(cid),) for cid in awake),
        tuple(f"{hour:02d}" for hour in _HOURS),
        tuple(
            tuple(
                of.enriched_channel[cid].posting_hours.get(str(hour), (0, 0))[0] for hour in _HOURS
            )
            for cid in awake
        ),
    )
    hours = Histogram(caption, "Hour", tuple(bars))
    blocks: tuple[Block, ...] = (heat, hours) if awake else (hours,)
    title = "Hours of the day, Monday to Friday"
    return Section(title, blocks, rule_before=True)


def _conversation(of: View) -> Section:
    new = of.new_statistics
    unanswered = f" of {new.top_level:,}"
    rate: Line = ("none",) if new.retention.rate is None else share(new.retention.rate)
    facts = (
        Fact("Threads started", number(new.threads_started)),
        Fact("Messages in threads", share(100 * new.thread_share)),
        Fact("Median wait for a first reply", (duration_text(new.first_reply.median),)),
        Fact("Wait of the slowest tenth", (duration_text(new.first_reply.p90),)),
        Fact("Unanswered messages", (*number(new.unanswered), unanswered)),
        Fact("Came back from the period before", rate),
        Fact("Returning after a pause", number(new.retention.returning)),
        Fact("Silent since the period before", number(new.retention.lapsed)),
        Fact("Posters on an average day", number(round(new.daily_posters_mean, 1))),
        Fact("Posters of 7 / 28 days", (*number(new.wau), " / ", *number(new.mau))),
        Fact("Unevenness of words (Gini)", (f"{new.gini_of_words:.2f}",)),
        Fact("Share of bots", share(100 * new.bot_share)),
    )
    return Section("Conversation", (Facts(facts),), beyond=True)
