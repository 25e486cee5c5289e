"""The items that may be stored under one key, as far as its only writer can know.

A result leaves only the states that explain it; an error after which the write may or may not have
been applied leaves both. Where no state is left, the engine has broken its contract.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from keytables import ConditionFailed, Item, Returning, Throttled, Unavailable, Value

State = Item | None


class ContractBroken(AssertionError):
    """No state explains a result."""


@dataclass(frozen=True)
class Write:
    """A write as a function of states. `holds`: its condition; `apply`: the state it leaves."""

    name: str
    apply: Callable[[State], State]
    holds: Callable[[State], bool] = lambda _: True
    returning: Returning = Returning.NOTHING

    def explains(self, state: State, result: object) -> bool:
        """Whether a successful write of that state may have that result.

        A condition may have failed in a later attempt, after the response to the first was lost:
        then the state is as this write leaves it, and the old item may be what it left itself.
        """
        after = self.apply(state)
        if not self.holds(state) and after != state:
            return False
        match self.returning:
            case Returning.NOTHING:
                return result is None
            case Returning.NEW:
                return result == after
        return result in (state, after)


@dataclass
class PossibleStates:
    """The possible states of a key."""

    key: tuple[str, ...]
    possible: list[State] = field(default_factory=lambda: [None])
    history: list[str] = field(default_factory=list)
    """The last results, for the error."""

    def on_written(self, write: Write, outcome: object, *, in_a_batch: bool = False) -> None:
        """A write had a result or failed. Of a batch that failed any part may have been applied."""
        after = [write.apply(state) for state in self.possible if write.holds(state)]
        match outcome:
            case ConditionFailed(item=item):
                left = [s for s in self.possible if not write.holds(s) and s == item]
            case Throttled() if not in_a_batch:
                left = self.possible
            case Throttled() | Unavailable():
                left = [*self.possible, *after]
            case BaseException():
                raise outcome
            case _:
                left = [write.apply(s) for s in self.possible if write.explains(s, outcome)]
        self._keep(left, f"{write.name} -> {outcome!r}")

    def on_read(self, item: object) -> None:
        """The item was read, or the read failed."""
        if isinstance(item, Throttled | Unavailable):
            return
        if isinstance(item, BaseException):
            raise item
        self._keep([state for state in self.possible if state == item], f"read {item!r}")

    def _keep(self, states: list[State], what: str) -> None:
        self.history = [*self.history[-9:], what]
        kept: list[State] = []
        for state in states:
            if state not in kept:
                kept.append(state)
        if not kept:
            steps = "\n  ".join(self.history)
            raise ContractBroken(f"{self.key}: {self.possible} does not explain\n  {steps}")
        self.possible = kept


def attribute(state: State, name: str) -> object:
    return None if state is None else state.get(name)


def members(state: State) -> frozenset[str]:
    found = attribute(state, "members")
    return found if isinstance(found, frozenset) else frozenset()


def changed(base: Item, state: State, **attributes: Value) -> Item:
    """The state (or `base` for none) with other attributes; None takes one away."""
    new = {**(base if state is None else state), **attributes}
    return {name: value for name, value in new.items() if value not in (None, frozenset())}
