"""What was chosen of a choice of days, in the period and in the one before.

Rule: a choice is a choice of messages, made before anything is counted: those of the channel, and
of these those that the person wrote. What others did to the person is found among everybody's.
"""

from collections.abc import Callable
from functools import cached_property
from typing import NamedTuple, TypeAlias

import polars as pl

from channelstats.stats import conversation
from channelstats.stats.interactions import Interactions
from channelstats.stats.measures import Measures
from channelstats.stats.messages import PeriodMessages
from channelstats.stats.period import History, Period
from channelstats.stats.quantities import Change, Quantity, change, not_compared, ranked


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


Figure: TypeAlias = Callable[[Selection], Quantity | None]
"""A number of one period; None where there is nothing to measure."""


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
        return change(now, before) if self.is_meaningful else not_compared(now)

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
