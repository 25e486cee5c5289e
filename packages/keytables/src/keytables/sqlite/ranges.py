"""Ranges of sort keys as bounds of a statement.

The one rule: at most one lower and one upper bound reach SQLite, so it always starts reading where
the answer starts.
"""

from dataclasses import dataclass

from keytables.checks import KeyCheck
from keytables.schema import Range
from keytables.sqlite.statements import Bound
from keytables.values import Scalar

__all__ = ["Bounds", "after_prefix", "bounds"]

_LAST_CHARACTER = 0x10FFFF


@dataclass(frozen=True, slots=True)
class Bounds:
    """Two bounds, each possibly missing, and their values."""

    lower: Bound = ""
    low: Scalar = 0
    upper: Bound = ""
    high: Scalar = 0

    @property
    def values(self) -> tuple[Scalar, ...]:
        """What is bound to them, lower first."""
        return (self.low,) * bool(self.lower) + (self.high,) * bool(self.upper)

    def beyond(self, position: Scalar, *, descending: bool) -> "Bounds":
        """Return what is left of the range after ``position``, which lies in it."""
        if descending:
            return Bounds(self.lower, self.low, "<", position)
        return Bounds(">", position, self.upper, self.high)

    def without_start(self, *, descending: bool) -> "Bounds":
        """Return the range with its first bound in reading order left out."""
        if descending:
            return Bounds(self.lower, self.low)
        return Bounds(upper=self.upper, high=self.high)


def bounds(sort: Range, check: KeyCheck) -> Bounds:
    """Return the bounds of a range of keys that pass ``check``. Raises SchemaError."""
    if sort.prefix is not None:
        if not sort.prefix:
            return Bounds()
        start, end = check(sort.prefix), after_prefix(sort.prefix)
        return Bounds(">=", start) if end is None else Bounds(">=", start, "<", end)
    lower: Bound = ""
    upper: Bound = ""
    low: Scalar = 0
    high: Scalar = 0
    if sort.gt is not None:
        lower, low = ">", _bound_value(sort.gt, check)
    elif sort.ge is not None:
        lower, low = ">=", _bound_value(sort.ge, check)
    if sort.lt is not None:
        upper, high = "<", _bound_value(sort.lt, check)
    elif sort.le is not None:
        upper, high = "<=", _bound_value(sort.le, check)
    return Bounds(lower, low, upper, high)


def _bound_value(value: Scalar, check: KeyCheck) -> Scalar:
    # No key is empty, but everything comes after the empty text: a fair bound of the right kind.
    if value == "":
        check("-")
        return value
    if value == b"":
        check(b"-")
        return value
    return check(value)


def after_prefix(prefix: str | bytes) -> str | bytes | None:
    """Return the least text (or bytes) after all that begin with ``prefix``; None: there is none.

    Text sorts by its UTF-8 bytes, which is the order of code points.
    """
    if isinstance(prefix, bytes):
        kept = prefix.rstrip(b"\xff")
        return kept[:-1] + bytes([kept[-1] + 1]) if kept else None
    text = prefix.rstrip(chr(_LAST_CHARACTER))
    if not text:
        return None
    following = ord(text[-1]) + 1
    if following == 0xD800:  # the surrogates are no characters
        following = 0xE000
    return text[:-1] + chr(following)
