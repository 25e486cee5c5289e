"""What a conditional write does to the stored item."""

from dataclasses import dataclass, field
from typing import Any

import pytest

from keytables import Attr, ConditionFailed, Item, Key, Param, Returning, Table, Update
from keytables.commit.conditional import (
    Action,
    ItemChange,
    conditional_delete,
    conditional_put,
    conditional_update,
    evaluated,
)
from keytables.engine import WriteOptions
from keytables.expressions import Condition, compile_update
from keytables.packing import pack
from support.cases import cases

TABLE = Table("things", Key("a"))
OLD: Item = {"a": "1", "n": 1}
IS_ONE = Attr("n") == Param("n")


@dataclass
class Stored:
    """A row is the item itself."""

    item: Item | None
    key: tuple[str] = ("1",)
    done: list[object] = field(default_factory=list)

    def put(self, row: Item) -> None:
        self.done.append(row)

    def replace(self, row: Item) -> bytes:
        if row != self.item:
            self.put(row)
        return pack(row)

    def delete(self) -> None:
        self.done.append("deleted")


class Write:
    def __init__(self, argument: Any, condition: Condition | None, returning: Returning) -> None:
        options = WriteOptions(condition, {"n": 1, "new": 2}, returning)
        self.condition, self.values, self.returning = evaluated(options)
        self.argument = argument


def change(update: Update) -> ItemChange:
    return ItemChange(*compile_update(TABLE, update), TABLE.key_names, lambda item: ((), item))


SET, REMOVE = change(Update(set={"n": Param("new")})), change(Update(remove=("n",)))
SAME = change(Update(set={"n": 1}))
NEW: Item = {"a": "1", "n": 2}


@cases(
    ("action", "argument", "stored", "returning", "done", "result"),
    [
        (conditional_put, NEW, OLD, Returning.NOTHING, [NEW], None),
        (conditional_delete, None, OLD, Returning.NOTHING, ["deleted"], None),
        (conditional_delete, None, OLD, Returning.OLD, ["deleted"], OLD),
        (conditional_delete, None, None, Returning.OLD, ["deleted"], None),
        (conditional_update, SET, OLD, Returning.NOTHING, [NEW], None),
        (conditional_update, SET, OLD, Returning.OLD, [NEW], OLD),
        (conditional_update, SET, OLD, Returning.NEW, [NEW], NEW),
        (conditional_update, SET, None, Returning.NEW, [NEW], NEW),
        (conditional_update, SET, None, Returning.OLD, [NEW], None),
        (conditional_update, SAME, OLD, Returning.NEW, [], OLD),
        (conditional_update, REMOVE, None, Returning.NEW, [], None),
    ],
)
def test_a_write_changes_the_item_and_returns_what_is_asked_for(
    action: Action,
    argument: Any,
    stored: Item | None,
    returning: Returning,
    done: list[object],
    result: Item | None,
) -> None:
    state = Stored(stored)
    assert action(Write(argument, None, returning), state) == result
    assert state.done == done
    assert stored in (OLD, None)


@cases("action", [conditional_put, conditional_delete, conditional_update])
@cases("stored", [{"a": "1", "n": 5}, None])
def test_a_false_condition_changes_nothing_and_shows_a_copy_of_the_item(
    action: Action, stored: Item | None
) -> None:
    state = Stored(stored)
    with pytest.raises(ConditionFailed) as failed:
        action(Write(SET, IS_ONE, Returning.NOTHING), state)
    assert failed.value.item == stored
    assert stored is None or failed.value.item is not stored
    assert state.done == []


def test_values_are_those_of_the_time_of_submission() -> None:
    members = {"x"}
    options = WriteOptions(None, {"s": members}, Returning.NOTHING)
    _, values, _ = evaluated(options)
    members.add("y")
    assert values == {"s": {"x"}}
