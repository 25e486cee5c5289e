"""Channels and people as tables: a row for each of them, a column for each metric that is asked
for. There is no other way to such a table.

Rule: the most messages first, then the most words, then by ID. Shares and changes are those of
messages, and of everything, whatever rows are shown.
"""

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Final

import polars as pl

from channelstats.metrics.quantities import MESSAGES_THEN_WORDS, Formula, percent_of, ranked
from channelstats.pages.components import NOTHING, table
from channelstats.metrics.registry import Figure
from channelstats.pages.loading import Comparison, ViewRequest
from channelstats.pages.model import Table


class By(StrEnum):
    """What a row is about."""

    CHANNEL = "channel"
    PERSON = "person"


_KEYS: Final = {By.CHANNEL: "slack_cid", By.PERSON: "slack_uid"}


def _flag(name: str) -> pl.Expr:
    return pl.when(name).then(pl.lit(name)).otherwise(pl.lit(""))


_METRICS: Final[Mapping[str, Callable[[Comparison], pl.Expr]]] = {
    "rank": lambda _: pl.col("place"),
    "messages": lambda _: pl.col("m"),
    "words": lambda _: pl.col("w"),
    "posters": lambda _: pl.col("posters"),
    "share": lambda _: percent_of("m", "all_m").column().shown(),
    "cumulative": lambda _: percent_of("sum_m", "all_m").column().shown(),
    "words_per_poster": lambda _: Formula("w", "posters").column().shown(),
    "change": lambda scope: scope.changes(Formula("m")),
    "files": lambda _: pl.col("files"),
    "joins": lambda _: pl.col("joins"),
    "leaves": lambda _: pl.col("leaves"),
    "new": lambda _: _flag("new"),
    "private": lambda _: _flag("private"),
    "members": lambda _: pl.col("members"),
    "reactions": lambda _: pl.col("reactions"),
    "reactions_given": lambda _: pl.col("reactions_given"),
    "answers": lambda _: pl.col("thread_messages"),
    "answers_given": lambda _: pl.col("answers_given"),
}


def ranking(
    request: ViewRequest,
    by: By,
    *metrics: str,
    title: str = "",
    name: str = "",
    where: pl.Expr | None = None,
    most: int | None = None,
    called: Mapping[str, Figure] = NOTHING,
    bar: str = "messages",
    about: str = "",
) -> Table:
    """A table of these metrics, with the name ``name`` or that of its view, which has all rows
    where these are the first ``most``. ``where``: of the columns that metrics are made of.
    ``called`` are figures whose titles are to stand in place of the usual ones.
    """
    view = "channels" if by is By.CHANNEL else "people"
    found = _sizes(request, by)
    found = found if where is None else found.filter(where)
    whole = view if most and found.height > most else ""
    columns = {metric: _METRICS[metric](request.scope) for metric in metrics}
    key = {str(by): pl.col(_KEYS[by])}
    first = {"rank": columns.pop("rank")} if "rank" in columns else {}
    rows = found.head(most or found.height).select(**first, **key, **columns)
    title = f"{view.capitalize()} with the most messages" if whole else title or view.capitalize()
    return table(name or view, title, rows, called, bar=bar, whole=whole, about=about)


def _sizes(request: ViewRequest, by: By) -> pl.DataFrame:
    """What metrics are made of, of now and of the period before, in the order of places."""
    scope, key = request.scope, _KEYS[by]
    found = ranked(scope.channels if by is By.CHANNEL else scope.authors, MESSAGES_THEN_WORDS, key)
    found = found.with_columns(
        place=pl.int_range(1, pl.len() + 1),
        all_m=pl.col("m").sum(),
        sum_m=pl.col("m").cum_sum(),
    )
    if by is By.CHANNEL:
        known = request.data.known_channels
        return request.listable(found).join(known, on=key, how="left", maintain_order="left")
    given = scope.now.period_messages.responses.group_by(key).agg(
        answers_given=pl.len().cast(pl.Int64)
    )
    found = found.join(given, on=key, how="left", maintain_order="left")
    return found.with_columns(pl.col("answers_given").fill_null(0))
