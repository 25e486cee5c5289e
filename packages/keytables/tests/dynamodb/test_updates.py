"""What an update leaves, told from the item."""

from typing import Any

import pytest

from keytables import Param, Update
from keytables.dynamodb.conditions import Alias
from keytables.dynamodb.updates import parts_of

UPDATE = Update(set=("a",), remove=("b",), add_to=("plus",), take_from=("minus",))
VALUES: dict[str, dict[str, Any]] = {
    ":0": {"N": "5"},
    ":1": {"SS": ["x", "y"]},
    ":2": {"SS": ["z"]},
}
DONE: dict[str, Any] = {
    "user": {"S": "u"},
    "a": {"N": "5.0"},
    "plus": {"SS": ["y", "w", "x"]},
    "minus": {"SS": ["w"]},
    "other": {"S": "of somebody else"},
}


def done(item: dict[str, Any]) -> bool:
    return parts_of(UPDATE, Alias()).done(item, VALUES)


def test_it_is_done_when_every_part_of_it_is() -> None:
    assert done(DONE)
    assert done({name: value for name, value in DONE.items() if name != "minus"})


@pytest.mark.parametrize(
    "other",
    [
        {"a": {"N": "6"}},
        {"a": {"S": "5"}},
        {"b": {"NULL": True}},
        {"plus": {"SS": ["x"]}},
        {"plus": {"S": "xy"}},
        {"minus": {"SS": ["w", "z"]}},
    ],
    ids=repr,
)
def test_it_is_not_done_when_one_part_is_not(other: dict[str, Any]) -> None:
    assert not done({**DONE, **other})


@pytest.mark.parametrize("gone", ["a", "plus"])
def test_it_is_not_done_when_what_it_gives_is_missing(gone: str) -> None:
    assert not done({name: value for name, value in DONE.items() if name != gone})


def test_of_nothing_it_makes_what_it_assigns_and_adds() -> None:
    made = parts_of(UPDATE, Alias()).made_of_nothing({"user": {"S": "u"}}, VALUES)
    assert made == {"user": {"S": "u"}, "a": {"N": "5"}, "plus": {"SS": ["x", "y"]}}


def test_setting_the_empty_set_is_removing() -> None:
    parts = parts_of(Update(set={"a": Param("p"), "b": Param("q")}), Alias(frozenset({"p"})))
    assert parts.assigned == {"b": ":0"}
    assert parts.removed == ("a",)
