"""JSON → objects: all at once where they are sound, one at a time where some are broken.

Rule: one broken object costs itself; only text that is no JSON array at all costs the whole file.
"""

import json
import re
from typing import Final, Generic, TypeVar

import msgspec

from channelstats.slack.objects import SlackChannel, SlackMessage, SlackUser

_T = TypeVar("_T")

_WRONG_KIND: Final = re.compile(r"Expected `([^`]+)`, got `([^`]+)`(?: - at `([^`]+)`)?")
_KINDS: Final = {
    "str": "a text",
    "int": "a number",
    "float": "a number",
    "bool": "true or false",
    "array": "a list",
    "object": "an object",
}
_BOM: Final = b"\xef\xbb\xbf"


class Malformed(Exception):  # noqa: N818
    """The text is no JSON array. The message says where and why."""


class Broken(Exception):  # noqa: N818
    """A value is not the object it should be. The message says why."""


def object_of(value: object, kind: type[_T]) -> _T:
    """The object that a value of JSON stands for.

    :raises Broken: it does not
    """
    try:
        return msgspec.convert(value, kind, strict=False)
    except msgspec.MsgspecError as error:
        raise Broken(_in_words(str(error))) from None
    except UnicodeEncodeError:
        raise Broken("half of a surrogate pair in the name of a field") from None


def _in_words(complaint: str) -> str:
    """What msgspec says of a wrong value, for people who know JSON."""
    parts = _WRONG_KIND.fullmatch(complaint)
    if parts is None:
        return complaint
    expected, found, path = parts.groups(default="")
    kinds = [_KINDS.get(kind, kind) for kind in expected.split(" | ") if kind != "null"]
    place = path.removeprefix("$").lstrip(".") or "it"
    return f"{place} is {_KINDS.get(found, found)}, expected {' or '.join(kinds)}"


class ArrayDecoder(Generic[_T]):
    """Decodes arrays of one kind of object. Numbers may be written as text, as old exports do."""

    def __init__(self, kind: type[_T]) -> None:
        self._kind = kind
        self._many = msgspec.json.Decoder(list[kind], strict=False)  # type: ignore[valid-type]

    def decode(self, data: bytes) -> tuple[list[_T], list[str]]:
        """Return the objects, in order, and for each that is broken what is wrong with it.

        :raises Malformed: no JSON, or no array
        """
        if data.startswith(_BOM):
            data = data[len(_BOM) :]
        try:
            return self._many.decode(data), []
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return self._one_by_one(data)

    def _one_by_one(self, data: bytes) -> tuple[list[_T], list[str]]:
        # The standard library's decoder takes what msgspec refuses to: halves of surrogate pairs.
        try:
            values = json.loads(data)
        except (ValueError, RecursionError) as error:
            raise Malformed(_reason(error)) from None
        if not isinstance(values, list):
            raise Malformed(f"expected an array, found {type(values).__name__}")
        found, broken = [], []
        for value in values:
            try:
                found.append(object_of(value, self._kind))
            except Broken as error:
                broken.append(str(error))
        return found, broken


def _reason(error: ValueError | RecursionError) -> str:
    if isinstance(error, json.JSONDecodeError):
        return f"not JSON, line {error.lineno} column {error.colno}: {error.msg}"
    if isinstance(error, UnicodeDecodeError):
        return f"not UTF-8, byte {error.start}"
    if isinstance(error, RecursionError):
        return "nested too deeply"
    return "a number with too many digits"


MESSAGES: Final = ArrayDecoder(SlackMessage)
USERS: Final = ArrayDecoder(SlackUser)
CHANNELS: Final = ArrayDecoder(SlackChannel)
