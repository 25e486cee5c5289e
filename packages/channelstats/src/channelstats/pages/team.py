"""The team beside all others: who answers, and whose questions wait."""

from typing import Final

import polars as pl

from channelstats.facts.facts import Slice
from channelstats.metrics.metric import nearest_rank
from channelstats.pages.components import table
from channelstats.pages.loading import ViewRequest
from channelstats.pages.model import Section
from channelstats.tables.exclusion import resolve_people

_COUNTS: Final = ("messages", "first_answers", "questions_left")
_GROUPS: Final = pl.DataFrame({"group": ["Team", "Members"], "is_team": [True, False]})


def team_section(request: ViewRequest) -> tuple[Section, ...]:
    """What the team and what others wrote, answered and asked. Not without a team, of one person,
    nor where either of both is a small group.
    """
    now, people = request.scope.now, request.data.inputs.users
    team = sorted(resolve_people(request.data.options.team, people))
    if not team or request.scope.person:
        return ()
    is_team = pl.col("slack_uid").is_in(team)
    written = now.messages.group_by(is_team=is_team).agg(
        pl.len().cast(pl.Int64).alias("messages"), posters=pl.col("slack_uid").n_unique()
    )
    if any(number < request.smallest_group for number in written["posters"]):
        return ()
    rows = _GROUPS.join(written.drop("posters"), on="is_team", how="left", maintain_order="left")
    for counted in (_answers(now, is_team), _questions(now, is_team)):
        rows = rows.join(counted, on="is_team", how="left", maintain_order="left")
    rows = rows.drop("is_team").with_columns(pl.col(_COUNTS).fill_null(0))
    if now.questions_left is None:
        rows = rows.drop("questions_left")
    about = "Members are all who are not in the team (the setting team)."
    return (Section.of(table("team", "By the team and by members", rows, about=about)),)


def _answers(now: Slice, is_team: pl.Expr) -> pl.DataFrame:
    """How many threads got their first reply by somebody else from either, and how soon."""
    place = ["slack_cid", "ts", "replied_at"]
    repliers = now.facts.answers.rename({"thread_ts": "ts"})
    answered = pl.col("seconds").is_not_null()
    first = now.table("conversations").filter(answered).join(repliers, on=place)
    first = first.filter(pl.col("replier") != pl.col("slack_uid")).with_columns(slack_uid="replier")
    return first.group_by(is_team=is_team).agg(
        first_answers=pl.len().cast(pl.Int64), first_answer=nearest_rank(50)
    )


def _questions(now: Slice, is_team: pl.Expr) -> pl.DataFrame:
    """How many questions of either nobody answered, as far as they are followed."""
    left = now.questions_left
    asked = now.messages.clear() if left is None else left
    return asked.group_by(is_team=is_team).agg(questions_left=pl.len().cast(pl.Int64))
