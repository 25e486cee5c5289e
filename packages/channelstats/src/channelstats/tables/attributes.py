"""Reading attributes of items, whoever wrote them, and leaving empty ones out.

Rule: `None`, `""`, `[]` and `{}` are not written; `0` and `false` are. An attribute of an
unexpected kind reads as if it were absent.
"""

from collections.abc import Mapping

from keytables import Item, Value


def without_empty(item: Mapping[str, Value]) -> Item:
    return {
        name: value
        for name, value in item.items()
        if value is False or value == 0 or value  # 0 and false are kept; empty things are not
    }


def text(item: Mapping[str, Value], *names: str) -> str:
    """The first of these attributes that holds text, else the empty text."""
    for name in names:
        value = item.get(name)
        if isinstance(value, str) and value:
            return value
    return ""


def number(item: Mapping[str, Value], *names: str) -> int | None:
    """The first of these attributes that holds a number or the text of one, as a whole number."""
    for name in names:
        value = item.get(name)
        if isinstance(value, bool) or not isinstance(value, int | float | str):
            continue
        try:
            return int(float(value))
        except (ValueError, OverflowError):
            continue
    return None


def flag(item: Mapping[str, Value], name: str) -> bool:
    return item.get(name) is True
