"""The report on a whole workspace, full or brief.

Rule: the order is that of the original; what it did not have is marked as beyond it.
"""

from typing import Final

from channelstats.days import period_text
from channelstats.stats.activity import HOURS
from channelstats.stats.conversation import bot_share, conversation
from channelstats.stats.measures import AUTHORS_OF_HALF
from channelstats.stats.messages import REACTED, REPLIED
from channelstats.stats.rankings import AUTHORS_COMPARED, CHANNELS_COMPARED, is_new
from channelstats.views.model import (
    Bars,
    Cell,
    Column,
    Heat,
    Kind,
    Layout,
    Part,
    Report,
    Section,
    Series,
    Span,
    Table,
    Tile,
    Tiles,
)
from channelstats.views.report_data import ReportData, unchanged
from channelstats.views.sections import (
    REACTIONS,
    REPLIES,
    WEEKDAYS,
    change_tile,
    coverage_note,
    emoji_part,
    histogram,
    hour_text,
    messages_section,
    number_tile,
    present,
    text_tile,
)

_FULL: Final = 20
_BRIEF: Final = 10
_AWAKE: Final = 12
"""Channels in the map of hours."""

_NEW: Final = 2
"""The column that says which channels are new; it is there where one is."""


def workspace_report(of: ReportData, *, brief: bool = False) -> Report:
    """The global report; ``brief`` is its headline only."""
    now = of.now.measures
    emoji = emoji_part(now.period_messages.emoji().items(), now.volume.words, "The emoji used most")
    sections = present(
        _channels(of, brief=brief),
        _people(of, brief=brief),
        _days(of),
        None if brief else _zones(of),
        None if brief else _hours(of),
        None if brief else _conversation(of),
        Section("Top emoji", (emoji,), rule_before=True, rule_after=True),
        messages_section(
            "most_reacted", "Most reacted messages", REACTIONS, of.now.top(REACTED), of
        ),
        messages_section("most_replied", "Most replied messages", REPLIES, of.now.top(REPLIED), of),
    )
    return Report(
        name="brief" if brief else "global",
        title=("Workspace report",),
        period=period_text(of.period.start, of.period.last),
        lead=(_posters(of), _volume(of), *coverage_note(of)),
        sections=sections,
    )


def _compared(of: ReportData, name: str, title: str, kind: Kind, after: str = "") -> Tile:
    """A figure of `statistics` against the one before."""
    now, before = of.now.measures.statistics[name], of.before.measures.statistics[name]
    key = name.replace(" ", "_")
    return change_tile(key, title, of.change(now, before), kind, (after,) if after else ())


def _posters(of: ReportData) -> Tiles:
    now = of.now.measures.statistics
    active = Span(now["active_users"], Kind.COUNT) if isinstance(now["active_users"], int) else ""
    compared = of.change(now["posters"], of.before.measures.statistics["posters"])
    return Tiles(
        (
            change_tile("posters", "Posters", compared, after=(" of ", active)),
            number_tile("posting", "Members who posted", now["% posting"], Kind.PERCENT),
            number_tile("median", "Median messages of a poster", now["median messages"]),
            _compared(of, "topten messages", "Top ten's share of messages", Kind.PERCENT),
            _compared(of, "50percent of words", "People who make half of all words", Kind.COUNT),
            _compared(of, "first-time posters", "First-time posters", Kind.COUNT),
            *_history(of),
        )
    )


def _history(of: ReportData) -> tuple[Tile, ...]:
    """Where history begins within the period, as everybody looks new then."""
    day = of.data.inputs.history.first
    if day is None or not of.period.start <= day <= of.period.last:
        return ()
    return (text_tile("history", "History known since", day.isoformat()),)


def _volume(of: ReportData) -> Tiles:
    return Tiles(
        (
            _compared(of, "words", "Words", Kind.COUNT),
            _compared(of, "messages", "Messages", Kind.COUNT),
            _compared(of, "pages", "Pages", Kind.COUNT),
            _compared(of, "words per message", "Words per message", Kind.NUMBER),
            _compared(of, "words per poster", "Words per poster", Kind.NUMBER),
            _compared(of, "messages per poster", "Messages per poster", Kind.NUMBER),
        )
    )


def _channels(of: ReportData, *, brief: bool) -> Section:
    most = _BRIEF if brief else _FULL
    columns = [
        Column("rank", "Rank", Kind.COUNT, phrase="{}."),
        Column("channel", "Channel", Kind.CHANNEL),
        Column("new", "New", Kind.TEXT, phrase=" ({})"),
        Column("posters", "Posters", Kind.COUNT),
        Column("members", "Members", Kind.COUNT, phrase="/{} posters"),
        Column("words", "Words", Kind.COUNT, bar=True, phrase=", {}w"),
        Column("messages", "Messages", Kind.COUNT, phrase=", {}m"),
    ]
    if not brief:
        columns += [
            Column("words_per_poster", "Words per poster", Kind.NUMBER, phrase=", {} words/poster"),
            Column("percent", "Of traffic", Kind.PERCENT, phrase=", {} of traffic"),
            Column("cpercent", "Cumulative", Kind.PERCENT, phrase=", {} cumulative"),
        ]
    rows: list[tuple[Cell, ...]] = []
    for rank, entry in enumerate(list(of.now.channels.values())[:most], 1):
        before = of.before.channels.get(entry.slack_cid)
        known = of.data.inputs.channels.get(entry.slack_cid)
        changes = {
            name: of.change(figure(entry), figure(before) if before else None)
            for name, figure in CHANNELS_COMPARED.items()
        }
        names = ("words", "messages", "words_per_poster", "percent", "cpercent")
        cells: list[Cell] = [
            rank,
            entry.slack_cid,
            "new" if is_new(known, of.period) else "",
            changes["posters"],
            known.members if known else None,
            *(changes[name] for name in names),
        ]
        rows.append(tuple(cells[: len(columns)]))
    if not any(row[_NEW] for row in rows):
        del columns[_NEW]
        rows = [(*row[:_NEW], *row[_NEW + 1 :]) for row in rows]
    title, known_as = f"Top {most} channels", "channels with messages"
    return _ranking("channels", title, len(of.now.channels), known_as, columns, rows)


def _people(of: ReportData, *, brief: bool) -> Section:
    most = _BRIEF if brief else _FULL
    columns = [
        Column("rank", "Rank", Kind.COUNT, phrase="{}."),
        Column("person", "Person", Kind.PERSON),
        Column("words", "Words", Kind.COUNT, bar=True, phrase=" {}w"),
        Column("messages", "Messages", Kind.COUNT, phrase=", {}m"),
        Column("rphw", "Reactions per 100 words", Kind.NUMBER, phrase=", {} reactions/100 words"),
    ]
    if not brief:
        columns += [
            Column(
                "thread_messages",
                "Replies to their threads",
                Kind.COUNT,
                phrase=", {} replies to their threads",
            ),
            Column("percent", "Of traffic", Kind.PERCENT, phrase=", {} of traffic"),
            Column("cpercent", "Cumulative", Kind.PERCENT, phrase=", {} cumulative"),
        ]
    half = AUTHORS_OF_HALF["50percent users for words"](of.now.measures.volume)
    rows: list[tuple[Cell, ...]] = []
    for rank, uid in enumerate(half[:most], 1):
        entry, before = of.now.authors[uid], of.before.authors.get(uid)
        changes = {
            name: of.change(figure(entry), figure(before) if before else None)
            for name, figure in AUTHORS_COMPARED.items()
        }
        names = (
            *("words", "messages", "rphw", "thread_messages"),
            *("percent_of_words", "cum_percent_of_words"),
        )
        cells: list[Cell] = [rank, uid, *(changes[name] for name in names)]
        rows.append(tuple(cells[: len(columns)]))
    title, known_as = f"Top {most} people", "people who make half of all words"
    return _ranking("people", title, len(half), known_as, columns, rows)


def _ranking(
    name: str,
    title: str,
    known: int,
    known_as: str,
    columns: list[Column],
    rows: list[tuple[Cell, ...]],
) -> Section:
    """How many there are is said, as there may be fewer than the title promises."""
    parts: tuple[Part, ...] = ()
    if rows:
        parts = (Table(name, f"{title}, by words", tuple(columns), tuple(rows)),)
    return Section(title, parts, rule_before=True, note=f"{len(rows)} of {known:,} {known_as}")


def _days(of: ReportData) -> Section:
    now, before = (side.measures.activity.local_days() for side in (of.now, of.before))
    pairs = [(now.get(str(day), [0, 0]), before.get(str(day), [0, 0])) for day in range(7)]
    columns = (
        Column("day", "Day", Kind.TEXT, phrase="{}"),
        Column("words", "Words", Kind.COUNT, bar=True, label="word"),
        Column("messages", "Messages", Kind.COUNT, phrase=" in {}", label="message"),
    )
    rows = tuple(
        (name, of.change(now[1], before[1]), of.change(now[0], before[0]))
        for name, (now, before) in zip(WEEKDAYS, pairs, strict=True)
    )
    series = [Series("now", "This period", tuple(now[0] for now, _ in pairs))]
    if not of.not_compared:
        earlier = tuple(before[0] for _, before in pairs)
        series.append(Series("before", "The period before", earlier, faint=True))
    chart = Bars(
        name="weekdays",
        title="Messages by day, local time",
        axis="Day",
        labels=tuple(name[:3] for name in WEEKDAYS),
        kind=Kind.COUNT,
        series=tuple(series),
    )
    table = Table("days", "Days, local time", columns, rows, layout=Layout.LIST)
    return Section("Days of the week", (chart, table), rule_before=True)


def _zones(of: ReportData) -> Section:
    columns = (
        Column("rank", "Rank", Kind.COUNT, phrase="{}."),
        Column("time_zone", "Time zone", Kind.TEXT),
        Column("posters", "Posters", Kind.COUNT, phrase=" {} posters"),
        Column("words", "Words", Kind.COUNT, bar=True, phrase=", {}w"),
        Column("messages", "Messages", Kind.COUNT, phrase=", {}m"),
    )
    found = of.now.measures.activity.zones.select("tz", "posters", "w", "m").iter_rows()
    listed = [row for row in found if of.groups.shows_zone(row[1])]
    rows = tuple((rank, *row) for rank, row in enumerate(listed, 1))
    parts = (Table("time_zones", "Time zones, by words", columns, rows),) if rows else ()
    return Section("Time zones", parts, rule_before=True, note=str(len(rows)))


def _hours(of: ReportData) -> Section:
    """The mean share of each hour, and beside it what was really said in it."""
    activity = of.now.measures.activity
    said, shares = activity.local_hours(), activity.shares()
    rows: list[tuple[Cell, ...]] = []
    for hour in HOURS:
        messages, words = said.get(str(hour), (0, 0))
        rows.append((hour_text(hour), shares[str(hour)], messages, words))
    title = "Mean share of a person's messages in each hour, Monday to Friday, local time"
    table = histogram("hour", title, "Hour", tuple(rows), words=True)
    largest = list(of.now.channels)[:_AWAKE]
    parts: tuple[Part, ...] = (table,)
    if largest:
        parts = (_channel_hours(of, largest), table)
    return Section("Hours of the day, Monday to Friday", parts, rule_before=True)


def _channel_hours(of: ReportData, largest: list[str]) -> Heat:
    found = [
        dict(of.now.of_channel("hours", cid).select("local_hour", "m").iter_rows())
        for cid in largest
    ]
    return Heat(
        "channel_hours",
        "When the largest channels are active: messages by hour, Monday to Friday, local time",
        rows=tuple(largest),
        columns=tuple(f"{hour:02d}" for hour in HOURS),
        values=tuple(tuple(hours.get(hour, 0) for hour in HOURS) for hours in found),
        kind=Kind.COUNT,
        row_kind=Kind.CHANNEL,
    )


def _conversation(of: ReportData) -> Section:
    now, before = of.now.measures, of.before.measures
    new = conversation(now.period_messages, before.period_messages, of.data.measured.first_posts)
    first_reply, retention = new["first_reply"], new["retention"]

    def number(name: str, title: str, value: float | None, kind: Kind, after: str = "") -> Tile:
        change = None if value is None else unchanged(value)
        return Tile(name, title, kind, change, after=(after,) if after else ())

    bots = 100 * bot_share(now.period_messages.source, of.period)
    tiles = (
        number("threads_started", "Threads started", new["threads_started"], Kind.COUNT),
        number("thread_share", "Messages in threads", 100 * new["thread_share"], Kind.PERCENT),
        number("median", "Median time to a first reply", first_reply["median"], Kind.SECONDS),
        number("p90", "90% answered within", first_reply["p90"], Kind.SECONDS),
        number(
            "unanswered", "Unanswered", new["unanswered"], Kind.COUNT, f" of {new['top_level']:,}"
        ),
        number("retention", "Retention", retention["rate"], Kind.PERCENT),
        number("returning", "Returning", retention["returning"], Kind.COUNT),
        number("lapsed", "Lapsed", retention["lapsed"], Kind.COUNT),
        number("daily", "Posters on an average day", new["daily_posters_mean"], Kind.NUMBER),
        number("wau", "Posters of 7 / 28 days", new["wau"], Kind.COUNT, f" / {new['mau']:,}"),
        number("gini", "Unevenness of words (Gini)", new["gini_of_words"], Kind.RATE),
        number("bots", "Share of bots", bots, Kind.PERCENT),
    )
    return Section("Conversation", (Tiles(tiles),), beyond=True)
