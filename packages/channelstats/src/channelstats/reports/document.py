"""The document of a report as its JSON text, read where it is asked for.

Rule: it is a mapping like any other, and nothing of it becomes objects before somebody looks there:
whole, the document of a large workspace is millions of them.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Final, cast

import msgspec

from channelstats.stats.values import Json

_SHALLOW: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
_OBJECT: Final = ord("{")
"""What the text of an object begins with."""


class Document(Mapping[str, Json]):
    """A JSON object; objects inside are such mappings again.

    :raises msgspec.DecodeError: it is no JSON object
    """

    def __init__(self, json: bytes | str | msgspec.Raw) -> None:
        self.json: Final = msgspec.Raw(json)
        self._parts = _SHALLOW.decode(self.json)

    def __getitem__(self, name: str) -> Json:
        text = self._parts[name]
        return Document(text) if memoryview(text)[0] == _OBJECT else msgspec.json.decode(text)

    def __iter__(self) -> Iterator[str]:
        return iter(self._parts)

    def __len__(self) -> int:
        return len(self._parts)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Mapping) and whole(self) == whole(other)

    __hash__ = None  # type: ignore[assignment] # it is equal to dictionaries

    def text(self, name: str) -> msgspec.Raw:
        """A part in JSON.

        :raises KeyError: there is none of that name
        """
        return self._parts[name]


class Changed(Mapping[str, Json]):
    """What another mapping says, under ``names`` that lead to its own. A part is changed when it
    is asked for; ``change`` is given its own name.
    """

    def __init__(
        self,
        of: Mapping[str, Json],
        names: Mapping[str, str],
        change: Callable[[str, Json], Json],
    ) -> None:
        self._of, self._names, self._change = of, names, change

    def __getitem__(self, name: str) -> Json:
        own = self._names[name]
        return self._change(own, self._of[own])

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def whole(of: Mapping[str, Json]) -> dict[str, Json]:
    """The same all in dictionaries, for who looks everywhere."""
    if not isinstance(of, Document):
        return {name: objects(part) for name, part in of.items()}
    found: dict[str, Json] = msgspec.json.decode(of.json)
    return found


def objects(part: Json) -> Json:
    """A part, in dictionaries if it is a mapping."""
    return whole(cast("Mapping[str, Json]", part)) if isinstance(part, Mapping) else part
