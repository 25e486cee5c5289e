"""What was chosen of a choice of days, in the period and in the one before.

Rule: a choice is a choice of messages, made before anything is counted: those of the channel, and
of these those that the person wrote. What others did to the person is found among everybody's.
"""

from functools import cached_property
from typing import NamedTuple

import polars as pl

from channelstats.stats import conversation, quantities
from channelstats.stats.interactions import Interactions
from channelstats.stats.measures import Measures
from channelstats.stats.messages import PeriodMessages
from channelstats.stats.period import History, Period
from channelstats.stats.quantities import Change, Formula, Quantity, ranked


class Selection:
    """One period of a choice; ``history`` is the time that messages are known of, and ``whole`` the
    same without the choice of a person.
    """

    def __init__(
        self,
        chosen: Measures,
        history: History,
        person: str = "",
        whole: "Selection | None" = None,
    ) -> None:
        self.chosen = chosen
        self.history = history
        self.person = person
        self._whole = whole

    @property
    def whole(self) -> "Selection":
        return self._whole or self

    @property
    def period_messages(self) -> PeriodMessages:
        return self.chosen.period_messages

    @property
    def messages(self) -> pl.DataFrame:
        return self.period_messages.messages

    @property
    def period(self) -> Period:
        return self.period_messages.period

    @property
    def interactions(self) -> Interactions:
        """Of everybody."""
        return self.whole.chosen.interactions

    @cached_property
    def _edges(self) -> pl.DataFrame:
        return ranked(self.interactions.edges(), ["n"], "one", "other")

    @property
    def edges(self) -> pl.DataFrame:
        """Who interacts with whom of everybody, the most first: `one`, `other`, `n`."""
        return self.whole._edges

    @property
    def posters(self) -> int:
        return self.chosen.volume.posters

    @cached_property
    def waits(self) -> pl.DataFrame:
        return conversation.waits(self.period_messages)

    @cached_property
    def unanswered(self) -> pl.DataFrame:
        return conversation.unanswered(self.period_messages)

    @cached_property
    def given(self) -> pl.DataFrame:
        """Reactions given by the person, or all."""
        return self._by_person(self.whole.period_messages.reactions, "reactor")

    @cached_property
    def answers(self) -> pl.DataFrame:
        """Messages in threads of the person, or of anybody, by somebody else."""
        return self._by_person(self.whole.period_messages.responses, "parent")

    def _by_person(self, frame: pl.DataFrame, column: str) -> pl.DataFrame:
        return frame.filter(pl.col(column) == self.person) if self.person else frame


class Comparison(NamedTuple):
    """A choice in the period and in the one before."""

    now: Selection
    before: Selection

    @property
    def is_meaningful(self) -> bool:
        """Whether messages of both are known whole."""
        return all(of.history.covers(of.period) for of in self)

    def change(self, now: Quantity, before: Quantity | None) -> Change:
        """A number against the one before, where these can be compared."""
        return (
            quantities.change(now, before) if self.is_meaningful else quantities.not_compared(now)
        )

    def changes(self, of: Formula) -> pl.Expr:
        """`change` of each row of `channels` or `authors`."""
        now = of.column()
        if self.is_meaningful:
            return quantities.changes(now, of.column(quantities.before), pl.col("was"))
        nothing, state = pl.lit(None, pl.Float64), pl.lit("not_compared")
        return pl.struct(cur=now.shown(), prev=nothing, diff_pct=nothing, state=state)

    @property
    def channels(self) -> pl.DataFrame:
        """The channels with messages, beside the period before: see `beside`."""
        now, before = (of.chosen.channel_frame for of in self)
        return quantities.beside(now, before, "slack_cid")

    @property
    def authors(self) -> pl.DataFrame:
        """Everybody with an entry, whoever is chosen, beside the period before."""
        now, before = self.all_now.chosen.author_frame, self.all_before.chosen.author_frame
        return quantities.beside(now, before, "slack_uid")

    @property
    def person(self) -> str:
        return self.now.person

    @property
    def all_now(self) -> Selection:
        """The period without the choice of a person."""
        return self.now.whole

    @property
    def all_before(self) -> Selection:
        return self.before.whole
