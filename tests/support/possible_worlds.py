"""What may be stored under one key, as far as its only writer can tell.

Rule: an answer leaves only the states that explain it; an error that says nothing about the write
leaves both. Where no state is left, the engine has broken its contract.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from keytables import ConditionFailed, Item, Returning, Throttled, Unavailable, Value

State = Item | None


class Contradiction(AssertionError):
    """No state explains what was seen."""


@dataclass(frozen=True)
class Write:
    """A write as a function of states. `holds`: its condition; `result`: what it leaves."""

    name: str
    result: Callable[[State], State]
    holds: Callable[[State], bool] = lambda _: True
    returning: Returning = Returning.NOTHING
    deletes: bool = False

    def succeeds(self, state: State, answer: object) -> bool:
        """Whether that may be the answer of a success.

        A condition may have failed on a later try, after the first one's reply was lost; then the
        state must be as this write leaves it, and the old item may be what it left itself.
        """
        after = self.result(state)
        if not self.holds(state) and after != state:
            return False
        match self.returning:
            case Returning.NOTHING:
                return answer is None
            case Returning.NEW:
                return answer == after
        return answer in (state, after)


@dataclass
class Worlds:
    """The possible states of a key."""

    key: tuple[str, ...]
    possible: list[State] = field(default_factory=lambda: [None])
    history: list[str] = field(default_factory=list)
    """For the text of a contradiction; the last few."""

    def wrote(self, write: Write, outcome: object, *, in_a_batch: bool = False) -> None:
        """A write was answered: with a value, or with an exception.

        Of a batch that failed any part may have been applied.
        """
        after = [write.result(state) for state in self.possible if write.holds(state)]
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
                left = [write.result(s) for s in self.possible if write.succeeds(s, outcome)]
        self._keep(left, f"{write.name} -> {outcome!r}")

    def read(self, item: object) -> None:
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
            raise Contradiction(f"{self.key}: {self.possible} does not explain\n  {steps}")
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
