"""Updates as DynamoDB's update expressions, and what they leave.

The one rule: what an update does to an item can be told from the item alone, so that a write whose
reply was lost is recognised as done.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from keytables.dynamodb.codec import Wire, WireItem, same
from keytables.dynamodb.conditions import Alias
from keytables.expressions import Operand, Update

__all__ = ["Parts", "parts_of"]


@dataclass(frozen=True, slots=True)
class Parts:
    """What an update does to which attribute; values by their placeholders, none the empty set."""

    assigned: Mapping[str, str]
    removed: tuple[str, ...]
    added: Mapping[str, str]
    taken: Mapping[str, str]

    def text(self, alias: Alias) -> str:
        """Return the update expression, empty for an update that changes nothing."""
        name = alias.name
        clauses = {
            "SET": [f"{name(attribute)} = {value}" for attribute, value in self.assigned.items()],
            "REMOVE": [name(attribute) for attribute in self.removed],
            "ADD": [f"{name(attribute)} {value}" for attribute, value in self.added.items()],
            "DELETE": [f"{name(attribute)} {value}" for attribute, value in self.taken.items()],
        }
        return " ".join(f"{word} {', '.join(found)}" for word, found in clauses.items() if found)

    def made_of_nothing(self, key: WireItem, values: Mapping[str, Wire]) -> WireItem:
        """Return the item that the update makes where there is none."""
        return {
            **key,
            **{
                name: values[place] for name, place in (*self.assigned.items(), *self.added.items())
            },
        }

    def done(self, item: WireItem, values: Mapping[str, Wire]) -> bool:
        """Whether the item is as this update leaves it."""
        return (
            all(
                name in item and same(item[name], values[place])
                for name, place in self.assigned.items()
            )
            and not any(name in item for name in self.removed)
            and all(
                _members(item, name) >= set(values[place]["SS"])
                for name, place in self.added.items()
            )
            and all(
                _members(item, name).isdisjoint(values[place]["SS"])
                for name, place in self.taken.items()
            )
        )


def parts_of(update: Update, alias: Alias) -> Parts:
    """Return an update's parts; to set the empty set is to remove, to add or take it is nothing."""
    assigned = _places(update.assigned, alias)
    emptied = tuple(name for name in update.assigned if name not in assigned)
    return Parts(
        assigned,
        (*update.remove, *emptied),
        _places(update.added, alias),
        _places(update.taken, alias),
    )


def _places(operands: Mapping[str, Operand], alias: Alias) -> dict[str, str]:
    places = {name: alias.operand(operand) for name, operand in operands.items()}
    return {name: place for name, place in places.items() if place is not None}


def _members(item: WireItem, name: str) -> set[str]:
    return set(item.get(name, {}).get("SS", ()))
