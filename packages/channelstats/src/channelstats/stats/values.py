"""What a document is made of.

Rule: it can be written as JSON and read again, and is the same then.
"""

from collections.abc import Mapping, Sequence
from typing import Literal, TypeAlias, TypedDict, Union

import msgspec

State: TypeAlias = Literal["up", "down", "same", "new", "from_zero", "not_compared"]
"""`not_compared` is a state of views alone: of the time before, messages are not known whole."""


class Change(TypedDict):
    """A number and the one before; ``diff_pct`` is a percentage, unrounded."""

    cur: int | float
    prev: int | float | None
    diff_pct: float | None
    state: State


Part: TypeAlias = Union["Json", msgspec.Raw, Mapping[str, "Part"]]
"""What a document is written from: some parts of it are in JSON already."""

Json: TypeAlias = Union[  # noqa: UP007 - recursive, so named in quotes
    bool, int, float, str, Sequence["Json"], Mapping[str, "Json"], Change, None
]
