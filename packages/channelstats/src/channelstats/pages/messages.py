"""The messages that a figure counts, as a list of links; of their text nothing is known.

Rule: what a bar, a cell or a number counts is what its list has.
"""

import re
from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Final, NamedTuple, TypeAlias

import polars as pl

from channelstats.counting import JOINED, LEFT
from channelstats.days import WEEKDAYS
from channelstats.facts.facts import REACTED, REPLIED, Slice
from channelstats.metrics import registry
from channelstats.metrics.metric import STARTS_THREAD
from channelstats.pages.components import date_cells, message_cells, table
from channelstats.pages.hours import HOUR_NAMES, HOURS
from channelstats.pages.loading import ViewRequest
from channelstats.pages.model import ChoiceError, Page, Section
from channelstats.pages.threads import WAIT_LABELS, WAIT_STEPS

MOST_LISTED: Final = 10_000

Pick: TypeAlias = Callable[[Slice], pl.DataFrame]


class Selection(NamedTuple):
    """``title`` says which messages of a choice ``pick`` takes."""

    title: str
    pick: Pick


def view(request: ViewRequest) -> Page:
    found_by = selection(request.choice.only)
    if found_by is None:
        raise ChoiceError("only: expected a selection of messages, like threads or monday-09-00")
    picked = request.listable(found_by.pick(request.scope.now))
    listed = picked.sort("ts", "slack_cid", descending=[True, False]).head(MOST_LISTED)
    rows = listed.select(
        message=message_cells("slack_cid", "ts", "thread_ts"),
        channel="slack_cid",
        person="slack_uid",
        words="word_count",
        replies=REPLIED,
        reactions=REACTED,
        files="file_count",
        date=date_cells(listed, request.scope.now.period.zone),
    )
    more = f"Only the newest {MOST_LISTED:,} of {picked.height:,} messages are listed."
    titles = {"person": registry.BY, "replies": registry.REPLIES_IN_THREAD}
    return request.page(
        f"{found_by.title}, newest first.",
        # Which ones is in the title of the table, as a phone shows no sentence about the page.
        Section.of(table("messages", found_by.title, rows, titles)),
        notes=(more,) if picked.height > MOST_LISTED else (),
        compares=False,
    )


_EMOJI: Final = "emoji-"
"""What a selection of the messages with an emoji begins with; its name follows."""


def selection(name: str) -> Selection | None:
    """The selection of that name; None for none."""
    if not name.startswith(_EMOJI):
        return SELECTIONS.get(name)
    emoji = name.removeprefix(_EMOJI)
    return Selection(f"Messages with the reaction :{emoji}:", _with_emoji(emoji))


def emoji_selection(emoji: str) -> str:
    """The name of the selection of the messages with an emoji."""
    return f"{_EMOJI}{emoji}"


def selection_of(*labels: str) -> str:
    """The name of the selection that these labels are called by: `monday-09-00`; "" for none."""
    name = _slug(*labels)
    return name if name in SELECTIONS else ""


# ── which ────────────────────────────────────────────────────────────────────────────────────────


def _which(chosen: pl.Expr, table: str = "messages") -> Pick:
    return lambda part: part.table(table).filter(chosen)


def _answers(part: Slice) -> pl.DataFrame:
    """By others in threads of the person, or of anybody."""
    by_others = pl.col("parent_user_id") != pl.col("slack_uid")
    answers = part.whole.messages.filter(by_others)
    return answers.filter(pl.col("parent_user_id") == part.person) if part.person else answers


def _noticed(part: Slice) -> pl.DataFrame:
    return part.facts.noticed(part.messages)


def _heads(waited: pl.Expr) -> Pick:
    """Heads by the whole `seconds` until somebody else replied."""

    def pick(part: Slice) -> pl.DataFrame:
        heads = part.table("conversations").filter("is_head").filter(waited)
        return part.messages.join(heads, on="row", how="semi")

    return pick


def _waited(least: float, below: float) -> Pick:
    return _heads(pl.col("seconds").is_between(least, below, closed="left"))


def _with_emoji(emoji: str) -> Pick:
    def pick(part: Slice) -> pl.DataFrame:
        reactions = part.table("reactions").filter(pl.col("emoji").cast(pl.String) == emoji)
        return part.messages.join(reactions, on="row", how="semi")

    return pick


def _all() -> Mapping[str, Selection]:
    selections = {
        "": Selection("Messages of people", lambda part: part.messages),
        "threads": Selection("Messages with replies", _which(STARTS_THREAD)),
        "replies": Selection("Replies in threads", _which(pl.col("is_reply"))),
        "answers": Selection("Replies in threads that others started", _answers),
        "given": Selection(
            "Replies in threads that others started",
            _which(pl.col("parent_user_id") != pl.col("slack_uid")),
        ),
        "answered": Selection("Messages that others replied to", _waited(0, float("inf"))),
        "noticed": Selection(
            "Messages that others replied or reacted to",
            _noticed,
        ),
        "reacted": Selection("Messages with reactions", _which(pl.col(REACTED) > 0)),
        "files": Selection("Messages with files", _which(pl.col("file_count") > 0)),
        "joined": Selection(
            "Messages about joining a channel", _which(pl.col("subtype").is_in(JOINED), "moves")
        ),
        "left": Selection(
            "Messages about leaving a channel", _which(pl.col("subtype").is_in(LEFT), "moves")
        ),
    }
    bounds = pairwise((0, *WAIT_STEPS, float("inf")))
    for label, (least, below) in zip(WAIT_LABELS, bounds, strict=False):
        selections[_slug(label)] = Selection(
            f"Messages whose first reply by others took {label}", _waited(least, below)
        )
    selections[_slug(WAIT_LABELS[-1])] = Selection(
        "Messages with a thread that others never replied in", _heads(pl.col("seconds").is_null())
    )
    is_hour = {
        name: pl.col("local_hour") == hour for hour, name in zip(HOURS, HOUR_NAMES, strict=True)
    }
    is_day = {name: pl.col("local_weekday") == day for day, name in enumerate(WEEKDAYS)}
    for clock, hour in is_hour.items():
        selections[_slug(clock)] = Selection(
            f"Messages written from {clock}", _which(hour, "timed")
        )
    for name, day in is_day.items():
        selections[_slug(name)] = Selection(f"Messages written on a {name}", _which(day, "timed"))
        for clock, hour in is_hour.items():
            title = f"Messages written on a {name} from {clock}"
            selections[_slug(name, clock)] = Selection(title, _which(day & hour, "timed"))
    return selections


def _slug(*labels: str) -> str:
    return "-".join(re.sub(r"\W+", "-", label.lower()).strip("-") for label in labels)


SELECTIONS: Final[Mapping[str, Selection]] = _all()
"""By their names in addresses. Hours and weekdays are of the authors' local time."""
