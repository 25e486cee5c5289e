"""Channels and people as tables: a row for each of them, a column for each metric that is asked
for, with the key of a metric where it is called otherwise.

Rule: the most messages first, then the most words, then by ID. Shares and changes are those of
everything, whatever rows are shown.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

import polars as pl

from channelstats.metrics.metric import Metric
from channelstats.metrics.query import column_of, compared, parts_of
from channelstats.metrics.registry import METRICS
from channelstats.metrics.table import Table
from channelstats.pages.components import NOTHING, table
from channelstats.pages.loading import ViewRequest


class By(StrEnum):
    """What a row is about."""

    CHANNEL = "channel"
    PERSON = "person"


def _flag(name: str) -> pl.Expr:
    return pl.when(name).then(pl.lit(name)).otherwise(pl.lit(""))


_KNOWN: Final = {"new": _flag("new"), "private": _flag("private"), "members": pl.col("members")}
"""What is known of a channel beside its messages."""


def ranking(
    request: ViewRequest,
    by: By,
    *keys: str,
    title: str = "",
    name: str = "",
    where: pl.Expr | None = None,
    most: int | None = None,
    called: Mapping[str, Metric] = NOTHING,
    bar: str = "messages",
    about: str = "",
) -> Table:
    """A table of these metrics, with the name ``name`` or that of its view, which has all rows
    where these are the first ``most``. ``where``: of the columns that metrics are made of.
    ``called`` are metrics in place of those of a key.
    """
    scope, view = request.scope, "channels" if by is By.CHANNEL else "people"
    metrics = {key: called.get(key) or METRICS[key] for key in keys}
    if by is By.PERSON:  # whoever is chosen, the place is that among all
        scope = scope._replace(now=scope.now.whole, before=scope.before.whole)
    rows = compared(scope, by, tuple(parts_of(tuple(metrics.values()))))
    if by is By.CHANNEL:
        known = request.data.known_channels.rename({"slack_cid": by})
        rows = request.listable(rows, by).join(known, on=by, how="left", maintain_order="left")
    rows = rows if where is None else rows.filter(where)
    whole = view if most and rows.height > most else ""
    columns = {
        key: _KNOWN[key] if key in _KNOWN else column_of(scope, metric)
        for key, metric in metrics.items()
    }
    first = {"rank": columns.pop("rank")} if "rank" in columns else {}
    shown = rows.head(most or rows.height).select(**first, **{str(by): pl.col(by)}, **columns)
    title = f"{view.capitalize()} with the most messages" if whole else title or view.capitalize()
    return table(name or view, title, shown, called, bar=bar, whole=whole, about=about)
