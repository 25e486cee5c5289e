"""Ranges of sort keys as DynamoDB's key conditions.

The one rule: at most one comparison is asked, for DynamoDB takes no more; a bound that this one
includes and the range does not is left out of the answer.
"""

from dataclasses import dataclass
from typing import Final

from keytables.checks import KeyCheck
from keytables.schema import Range
from keytables.values import Scalar

__all__ = ["EVERYTHING", "KeyRange", "key_range"]


@dataclass(frozen=True, slots=True)
class KeyRange:
    """A comparison of the sort key, with ``{0}`` for its name and ``:a``, ``:b`` for ``values``.

    ``without``: keys that it holds for and that are not in the range.
    """

    text: str = ""
    values: tuple[Scalar, ...] = ()
    without: tuple[Scalar, ...] = ()


EVERYTHING: Final = KeyRange()


def key_range(sort: Range, check: KeyCheck) -> KeyRange | None:
    """Return the comparison of a range of keys that pass ``check``, ``None`` if no key is in it.

    Raises SchemaError for a bound of the wrong kind.
    """
    if sort.prefix is not None:
        if not sort.prefix:
            return EVERYTHING
        return KeyRange("begins_with({0}, :a)", (check(sort.prefix),))
    low = _bound(sort.ge if sort.gt is None else sort.gt, check)
    high = _bound(sort.le if sort.lt is None else sort.lt, check)
    # No key is empty, but every key comes after the empty text.
    if high in ("", b""):
        return None
    if low is None or low in ("", b""):
        if high is None:
            return EVERYTHING
        return KeyRange("{0} < :a" if sort.lt is not None else "{0} <= :a", (high,))
    if high is None:
        return KeyRange("{0} > :a" if sort.gt is not None else "{0} >= :a", (low,))
    if _less(high, low) or (low == high and (sort.gt is not None or sort.lt is not None)):
        return None
    without = (low,) * (sort.gt is not None) + (high,) * (sort.lt is not None)
    return KeyRange("{0} BETWEEN :a AND :b", (low, high), without)


def _bound(value: Scalar | None, check: KeyCheck) -> Scalar | None:
    if value == "":
        check("-")  # right if text is
        return value
    if value == b"":
        check(b"-")
        return value
    return None if value is None else check(value)


def _less(left: Scalar, right: Scalar) -> bool:
    """Compare two keys of one kind as DynamoDB does: text by its UTF-8 bytes, which is the order of
    code points, and so of Python's.
    """
    return left < right  # type: ignore[operator]
