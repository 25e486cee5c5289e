"""Months, and the message tables named after them.

Rule: a month is worked out with numbers, never by adding days; a name that is not exactly prefix,
year and month is no month's.
"""

import re
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Final, NamedTuple, Self

PAST_KNOWN: Final = 3
"""So many months with a table, this one included, are still looked into."""


class Month(NamedTuple):
    """A month of a year, UTC. Later ones are greater."""

    year: int
    month: int

    @classmethod
    def at(cls, now: float) -> Self:
        """The month of that time (epoch seconds)."""
        then = datetime.fromtimestamp(now, UTC)
        return cls(then.year, then.month)

    @classmethod
    def parse(cls, prefix: str, name: str) -> Self | None:
        """The month of a message table; None for any other name, the bare prefix included."""
        found = re.fullmatch(rf"{re.escape(prefix)}_([0-9]{{4}})_(0[1-9]|1[0-2])", name)
        return cls(int(found[1]), int(found[2])) if found else None

    @property
    def next(self) -> "Month":
        """The month after it."""
        return Month(self.year + self.month // 12, self.month % 12 + 1)

    @property
    def previous(self) -> "Month":
        """The month before it."""
        return Month(self.year - (self.month == 1), (self.month - 2) % 12 + 1)

    def table(self, prefix: str) -> str:
        """The name of its message table."""
        return f"{prefix}_{self.year:04}_{self.month:02}"


NO_MONTH: Final = Month(0, 0)
"""Of the table that has the bare prefix for a name: before all others."""


def live_tables(prefix: str, names: Iterable[str], this: Month | None) -> list[str]:
    """The message tables in use, newest first; the one of the bare prefix comes last.

    `this` is the month it is: then these are its predecessor's and all later ones (other nodes may
    be ahead), and the newest three that are not later than it. None where tables do not rotate:
    the newest three.
    """
    names = frozenset(names)
    months = sorted((month for name in names if (month := Month.parse(prefix, name))), reverse=True)
    past = [month for month in months if this is None or month <= this][:PAST_KNOWN]
    live = [
        month for month in months if month in past or (this is not None and month >= this.previous)
    ]
    return [month.table(prefix) for month in live] + ([prefix] if prefix in names else [])
