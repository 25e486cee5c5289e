"""Clients that read and write keys of their own at random, or one item together, and check it."""

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from keytables import (
    Attr,
    ConditionFailed,
    Item,
    KeyTuple,
    Page,
    Param,
    Returning,
    TableHandle,
    Throttled,
    Unavailable,
    Update,
    Value,
    Values,
)

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


ABSENT = Attr("user").absent()
NEWER = Attr("n").absent() | (Attr("n") < Param("n"))
SAME = Attr("token") == Param("old")
SET = Update(set=("n", "token"))
ADD = Update(add_to=("members",))
TAKE = Update(take_from=("members",))
REMOVE = Update(remove=("n",))

Submitted = tuple[list[tuple[PossibleStates, Write]], Awaitable[object]]
"""The keys a call writes and how, and its result."""


class RandomWriter:
    """Keys user and place. Every write leaves a new token, so that no two are equal."""

    def __init__(self, table: TableHandle, name: str, seed: int) -> None:
        self.table = table
        self.name = name
        self.random = Random(f"{seed} {name}")
        self.tokens = (f"{name}.{number}" for number in itertools.count())
        self.keys = [PossibleStates((name, place)) for place in "abc"]
        self.failures = 0

    async def run(self, steps: int) -> None:
        for _ in range(steps):
            if self.random.random() < 0.3:
                await self.read()
            else:
                await self.write(self.random.choice((1, 1, 1, 2, 5)))

    async def read(self) -> None:
        states = self.random.choice(self.keys)
        if self.random.random() < 0.5:
            (item,) = await asyncio.gather(self.table.get(states.key), return_exceptions=True)
            states.on_read(item)
            return
        page: Page | BaseException
        (page,) = await asyncio.gather(self.table.query(self.name), return_exceptions=True)
        for states in self.keys:
            if isinstance(page, BaseException):
                states.on_read(page)
            else:
                found = {item["place"]: item for item in page.items}
                states.on_read(found.get(states.key[1]))

    async def write(self, count: int) -> None:
        """Submit so many writes at once, and reads after them; check the results in that order."""
        submitted = [self.submit() for _ in range(count)]
        reads = self.keys if self.random.random() < 0.5 else []
        results = await asyncio.gather(
            *(result for _, result in submitted),
            *(self.table.get(states.key) for states in reads),
            return_exceptions=True,
        )
        for (writes, _), result in zip(submitted, results, strict=False):
            self.failures += isinstance(result, Throttled | Unavailable)
            for states, write in writes:
                states.on_written(write, result, in_a_batch=write.name.startswith("batch"))
        for states, item in zip(reads, results[count:], strict=True):
            states.on_read(item)

    def submit(self) -> Submitted:
        if self.random.random() < 0.15:
            return self.batch()
        states = self.random.choice(self.keys)
        kinds = (self.put, self.create, self.newer, self.set, self.swap, self.add, self.take)
        kind = self.random.choice((*kinds, self.remove, self.delete, self.delete_if))
        write, result = kind(states, states.key)
        return [(states, write)], result

    # --- the writes ---------------------------------------------------------------------------

    def item(self, key: KeyTuple) -> Item:
        return {**base(key), "n": self.random.randrange(10), "token": next(self.tokens)}

    def returning(self) -> Returning:
        return self.random.choice(list(Returning))

    def put(self, states: PossibleStates, key: KeyTuple) -> tuple[Write, Awaitable[object]]:
        item = self.item(key)
        return Write("put", lambda _: item), self.table.put(item)

    def create(self, states: PossibleStates, key: KeyTuple) -> tuple[Write, Awaitable[object]]:
        item = self.item(key)
        write = Write("create", lambda _: item, lambda state: state is None)
        return write, self.table.put(item, condition=ABSENT)

    def newer(self, states: PossibleStates, key: KeyTuple) -> tuple[Write, Awaitable[object]]:
        item = self.item(key)
        n: Any = item["n"]

        def holds(state: State) -> bool:
            stored: Any = attribute(state, "n")
            return stored is None or stored < n

        write = Write("newer", lambda _: item, holds)
        return write, self.table.put(item, condition=NEWER, values={"n": n})

    def set(self, states: PossibleStates, key: KeyTuple) -> tuple[Write, Awaitable[object]]:
        item, returning = self.item(key), self.returning()
        new = {"n": item["n"], "token": item["token"]}
        write = Write("set", lambda s: changed(base(key), s, **new), returning=returning)
        return write, self.table.update(key, SET, new, returning=returning)

    def swap(self, states: PossibleStates, key: KeyTuple) -> tuple[Write, Awaitable[object]]:
        """Compare and set."""
        item, returning = self.item(key), self.returning()
        new = {"n": item["n"], "token": item["token"]}
        old: Any = attribute(self.random.choice(states.possible), "token") or "none"
        write = Write(
            "swap",
            lambda s: changed(base(key), s, **new),
            lambda s: attribute(s, "token") == old,
            returning,
        )
        values = {**new, "old": old}
        return write, self.table.update(key, SET, values, condition=SAME, returning=returning)

    def add(self, states: PossibleStates, key: KeyTuple) -> tuple[Write, Awaitable[object]]:
        more, returning = frozenset({next(self.tokens)}), self.returning()
        write = Write(
            "add", lambda s: changed(base(key), s, members=members(s) | more), returning=returning
        )
        return write, self.table.update(key, ADD, {"members": more}, returning=returning)

    def take(self, states: PossibleStates, key: KeyTuple) -> tuple[Write, Awaitable[object]]:
        known = sorted(members(self.random.choice(states.possible))) or ["nobody"]
        less, returning = frozenset({self.random.choice(known)}), self.returning()
        write = Write(
            "take", lambda s: s and changed({}, s, members=members(s) - less), returning=returning
        )
        return write, self.table.update(key, TAKE, {"members": less}, returning=returning)

    def remove(self, states: PossibleStates, key: KeyTuple) -> tuple[Write, Awaitable[object]]:
        returning = self.returning()
        write = Write("remove", lambda s: s and changed({}, s, n=None), returning=returning)
        return write, self.table.update(key, REMOVE, returning=returning)

    def delete(self, states: PossibleStates, key: KeyTuple) -> tuple[Write, Awaitable[object]]:
        returning = self.random.choice((Returning.NOTHING, Returning.OLD))
        write = Write("delete", lambda _: None, returning=returning)
        return write, self.table.delete(key, returning=returning)

    def delete_if(self, states: PossibleStates, key: KeyTuple) -> tuple[Write, Awaitable[object]]:
        old: Any = attribute(self.random.choice(states.possible), "token") or "none"
        write = Write("delete if", lambda _: None, lambda s: attribute(s, "token") == old)
        return write, self.table.delete(key, condition=SAME, values={"old": old})

    def batch(self) -> Submitted:
        writes: list[tuple[PossibleStates, Write]] = []
        puts: list[Item] = []
        deletes: list[KeyTuple] = []
        for states in self.keys:
            if self.random.random() < 0.5:
                item = self.item(states.key)
                puts.append(item)
                writes.append((states, Write("batch put", lambda _, item=item: item)))  # type: ignore[misc]
            else:
                deletes.append(states.key)
                writes.append((states, Write("batch delete", lambda _: None)))
        return writes, self.table.batch_write(puts=puts, deletes=deletes)


def base(key: KeyTuple) -> Item:
    return {"user": key[0], "place": key[1]}


WRITERS = 6
STEPS = 60


async def random_walk(table: TableHandle, seed: int) -> list[RandomWriter]:
    """Let writers write and read at once."""
    writers = [RandomWriter(table, f"writer{number}", seed) for number in range(WRITERS)]
    await asyncio.gather(*(writer.run(STEPS) for writer in writers))
    return writers


async def check_all(table: TableHandle, writers: list[RandomWriter]) -> None:
    """Check that what is stored is a possible state of every key."""
    found = {(item["user"], item["place"]): item for item in (await table.scan()).items}
    for writer in writers:
        for states in writer.keys:
            states.on_read(found.get((states.key[0], states.key[1])))
            states.on_read(await table.get(states.key))


SHARED = ("u", "1")
"""The key of the item that several change."""


async def by_several(
    tables: Sequence[TableHandle], work: Callable[[TableHandle, str], Awaitable[None]]
) -> None:
    """Have three clients of each table do it at the same time, each under a name of its own."""
    await asyncio.gather(
        *(work(table, f"{side}{turn}") for side, table in enumerate(tables) for turn in range(3))
    )


async def change_a_set(tables: Sequence[TableHandle]) -> tuple[frozenset[str], frozenset[str]]:
    """Add members to a set, and take some out again. Returns those that it must have, and those
    that it may have.
    """
    held: dict[str, bool | None] = {}  # by member; None: unknown

    async def change(table: TableHandle, name: str) -> None:
        for number in range(8):
            member = f"{name}.{number}"
            held[member] = False
            for update in (ADD, TAKE) if number % 2 else (ADD,):
                try:
                    await table.update(SHARED, update, {"members": {member}})
                except Throttled:
                    continue
                except Unavailable:
                    held[member] = None
                else:
                    held[member] = update is ADD

    await by_several(tables, change)
    must = frozenset(member for member, there in held.items() if there)
    return must, must | {member for member, there in held.items() if there is None}


async def count_together(tables: Sequence[TableHandle]) -> tuple[int, int]:
    """Increment one number, each time on the condition that nobody else has meanwhile. Returns how
    many increments were acknowledged, and of how many it is not known whether they were applied.
    """
    acknowledged = unknown = 0

    async def count(table: TableHandle, name: str) -> None:
        nonlocal acknowledged, unknown
        for number in range(8):
            try:
                item = await table.get(SHARED) or {}
                n = int(str(item.get("n", 0))) + 1
                # The token distinguishes this increment from another one to the same number.
                values: Values = {"n": n, "token": f"{name}.{number}", "old": item.get("token")}
                condition = SAME if item else Attr("token").absent()
                await table.update(SHARED, SET, values, condition=condition)
            except (ConditionFailed, Throttled):
                continue
            except Unavailable:
                unknown += 1
                continue
            acknowledged += 1

    await by_several(tables, count)
    return acknowledged, unknown
