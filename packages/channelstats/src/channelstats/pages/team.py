"""The team beside all others: who answers, and whose questions wait."""

from collections.abc import Sequence
from typing import Final

import polars as pl

from channelstats.facts.facts import Slice
from channelstats.metrics.metric import nearest_rank
from channelstats.pages.components import table
from channelstats.pages.loading import ViewRequest
from channelstats.pages.model import Section
from channelstats.tables.exclusion import resolve_people

_COUNTS: Final = ("messages", "first_answers", "questions_left")
_TEAM, _MEMBERS, _EXTERNAL = "Team", "Members", "External"


def team_section(request: ViewRequest) -> tuple[Section, ...]:
    """What the team, other members and external people wrote, answered and asked. Not without a
    team, of one person, nor where one of the first two is a small group; where external people are,
    they are not told apart.
    """
    now, people = request.scope.now, request.data.inputs.users
    team = sorted(resolve_people(request.data.options.team, people))
    if not team or request.scope.person:
        return ()
    about = "Members are all who are not in the team (the setting team)"
    for outside in (sorted(now.facts.people.outside), []):
        group = _group(team, outside)
        written = now.messages.group_by(group).agg(
            pl.len().cast(pl.Int64).alias("messages"), posters=pl.col("slack_uid").n_unique()
        )
        posters = dict(written.select("group", "posters").iter_rows())
        if posters.get(_EXTERNAL, request.smallest_group) >= request.smallest_group:
            break
    if any(number < request.smallest_group for number in posters.values()):
        return ()
    groups = [_TEAM, _MEMBERS]
    if _EXTERNAL in posters:
        groups.append(_EXTERNAL)
        about += ", but for people from outside"
    rows = pl.DataFrame({"group": groups})
    for counted in (written.drop("posters"), _answers(now, group), _questions(now, group)):
        rows = rows.join(counted, on="group", how="left", maintain_order="left")
    rows = rows.with_columns(pl.col(_COUNTS).fill_null(0))
    if not now.follows_all_questions:
        rows = rows.drop("questions_left")
    title = "By the team and by others"
    return (Section.of(table("team", title, rows, about=f"{about}.")),)


def _group(team: Sequence[str], outside: Sequence[str]) -> pl.Expr:
    """Which of the groups the column `slack_uid` is of."""
    who = pl.col("slack_uid")
    is_team, is_outside = who.is_in(team), who.is_in(outside)
    group = pl.when(is_team).then(pl.lit(_TEAM)).when(is_outside).then(pl.lit(_EXTERNAL))
    return group.otherwise(pl.lit(_MEMBERS)).alias("group")


def _answers(now: Slice, group: pl.Expr) -> pl.DataFrame:
    """How many threads got their first reply by somebody else from each, and how soon."""
    place = ["slack_cid", "ts", "replied_at"]
    repliers = now.facts.answers.rename({"thread_ts": "ts"})
    answered = pl.col("seconds").is_not_null()
    first = now.table("conversations").filter(answered).join(repliers, on=place)
    first = first.filter(pl.col("replier") != pl.col("slack_uid")).with_columns(slack_uid="replier")
    return first.group_by(group).agg(
        first_answers=pl.len().cast(pl.Int64), first_answer=nearest_rank(50)
    )


def _questions(now: Slice, group: pl.Expr) -> pl.DataFrame:
    """How many questions of each nobody answered, as far as they are followed."""
    return now.questions_left.group_by(group).agg(questions_left=pl.len().cast(pl.Int64))
