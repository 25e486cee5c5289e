"""The range of a query as bounds that a database compares with the sort key."""

from typing import Literal, TypeAlias

import msgspec

from keytables.checks import KeyCheck, check_bound, check_range
from keytables.schema import Key, Range
from keytables.values import Scalar

Operator: TypeAlias = Literal["", ">", ">=", "<", "<="]
"""How a key compares to a bound; empty: there is no bound."""

_LAST_CHARACTER = 0x10FFFF


class SortBounds(msgspec.Struct, frozen=True, gc=False):
    lower: Operator = ""
    low: Scalar = 0
    upper: Operator = ""
    high: Scalar = 0

    @property
    def values(self) -> tuple[Scalar, ...]:
        return (self.low,) * bool(self.lower) + (self.high,) * bool(self.upper)

    def after(self, position: Scalar, *, descending: bool) -> "SortBounds":
        """Return the rest of the range after ``position``, which lies in it."""
        if descending:
            return SortBounds(self.lower, self.low, "<", position)
        return SortBounds(">", position, self.upper, self.high)

    def without_start(self, *, descending: bool) -> "SortBounds":
        """Return the range without the bound at which reading starts."""
        if descending:
            return SortBounds(self.lower, self.low)
        return SortBounds(upper=self.upper, high=self.high)


_NO_BOUNDS = SortBounds()


def sort_bounds(sort: Range | None, key: Key | None, check: KeyCheck) -> SortBounds:
    """Return the bounds of a range of keys that ``check`` accepts. Raises SchemaError."""
    if sort is None:
        return _NO_BOUNDS
    check_range(sort, key)
    if sort.prefix is not None:
        if not sort.prefix:
            return _NO_BOUNDS
        start, end = check(sort.prefix), after_prefix(sort.prefix)
        return SortBounds(">=", start) if end is None else SortBounds(">=", start, "<", end)
    lower: Operator = ""
    upper: Operator = ""
    low: Scalar = 0
    high: Scalar = 0
    if sort.gt is not None:
        lower, low = ">", check_bound(sort.gt, check)
    elif sort.ge is not None:
        lower, low = ">=", check_bound(sort.ge, check)
    if sort.lt is not None:
        upper, high = "<", check_bound(sort.lt, check)
    elif sort.le is not None:
        upper, high = "<=", check_bound(sort.le, check)
    return SortBounds(lower, low, upper, high)


def after_prefix(prefix: str | bytes) -> str | bytes | None:
    """Return the least text (or bytes) after all that start with ``prefix``; None: there is none.

    Text sorts by its UTF-8 bytes, which is the order of code points.
    """
    if isinstance(prefix, bytes):
        stripped = prefix.rstrip(b"\xff")
        return stripped[:-1] + bytes([stripped[-1] + 1]) if stripped else None
    text = prefix.rstrip(chr(_LAST_CHARACTER))
    if not text:
        return None
    following = ord(text[-1]) + 1
    if following == 0xD800:  # surrogates cannot be encoded
        following = 0xE000
    return text[:-1] + chr(following)
