"""A writer that does random things to keys of its own, and knows what may be stored under them."""

import asyncio
import itertools
import random
from collections.abc import Awaitable
from typing import Any

from keytables import (
    Attr,
    Item,
    KeyTuple,
    Param,
    Returning,
    TableHandle,
    Throttled,
    Unavailable,
    Update,
)
from support.possible_worlds import State, Worlds, Write, attribute, changed, members

ABSENT = Attr("user").absent()
NEWER = Attr("n").absent() | (Attr("n") < Param("n"))
SAME = Attr("token") == Param("old")
SET = Update(set=("n", "token"))
ADD = Update(add_to=("members",))
TAKE = Update(take_from=("members",))
REMOVE = Update(remove=("n",))

Submitted = tuple[list[tuple[Worlds, Write]], Awaitable[object]]
"""The keys a call writes and how, and its answer."""


class RandomWriter:
    """Keys user and place. Every write leaves a token of its own, so that no two are alike."""

    def __init__(self, table: TableHandle, name: str, seed: int) -> None:
        self.table = table
        self.name = name
        self.dice = random.Random(f"{seed} {name}")
        self.tokens = (f"{name}.{number}" for number in itertools.count())
        self.worlds = [Worlds((name, place)) for place in "abc"]
        self.failures = 0

    async def act(self, steps: int) -> None:
        for _ in range(steps):
            if self.dice.random() < 0.3:
                await self.look()
            else:
                await self.write(self.dice.choice((1, 1, 1, 2, 5)))

    async def look(self) -> None:
        world = self.dice.choice(self.worlds)
        if self.dice.random() < 0.5:
            (item,) = await asyncio.gather(self.table.get(world.key), return_exceptions=True)
            world.read(item)
            return
        (page,) = await asyncio.gather(self.table.query(self.name), return_exceptions=True)
        for world in self.worlds:
            if isinstance(page, BaseException):
                world.read(page)
            else:
                there = {item["place"]: item for item in page.items}
                world.read(there.get(world.key[1]))

    async def write(self, count: int) -> None:
        """Submit so many at once, and reads behind them; judge the answers in that order."""
        submitted = [self.submit() for _ in range(count)]
        read = self.worlds if self.dice.random() < 0.5 else []
        outcomes = await asyncio.gather(
            *(answer for _, answer in submitted),
            *(self.table.get(world.key) for world in read),
            return_exceptions=True,
        )
        for (writes, _), outcome in zip(submitted, outcomes, strict=False):
            self.failures += isinstance(outcome, Throttled | Unavailable)
            for world, write in writes:
                world.wrote(write, outcome, in_a_batch=write.name.startswith("batch"))
        for world, item in zip(read, outcomes[count:], strict=True):
            world.read(item)

    def submit(self) -> Submitted:
        if self.dice.random() < 0.15:
            return self.batch()
        world = self.dice.choice(self.worlds)
        kinds = (self.put, self.create, self.newer, self.set, self.swap, self.add, self.take)
        kind = self.dice.choice((*kinds, self.remove, self.delete, self.delete_if))
        write, answer = kind(world, world.key)
        return [(world, write)], answer

    # --- the writes ---------------------------------------------------------------------------

    def item(self, key: KeyTuple) -> Item:
        return {**base(key), "n": self.dice.randrange(10), "token": next(self.tokens)}

    def returning(self) -> Returning:
        return self.dice.choice(list(Returning))

    def put(self, world: Worlds, key: KeyTuple) -> tuple[Write, Awaitable[object]]:
        item = self.item(key)
        return Write("put", lambda _: item), self.table.put(item)

    def create(self, world: Worlds, key: KeyTuple) -> tuple[Write, Awaitable[object]]:
        item = self.item(key)
        write = Write("create", lambda _: item, lambda state: state is None)
        return write, self.table.put(item, condition=ABSENT)

    def newer(self, world: Worlds, key: KeyTuple) -> tuple[Write, Awaitable[object]]:
        item = self.item(key)
        n: Any = item["n"]

        def holds(state: State) -> bool:
            stored: Any = attribute(state, "n")
            return stored is None or stored < n

        write = Write("newer", lambda _: item, holds)
        return write, self.table.put(item, condition=NEWER, values={"n": n})

    def set(self, world: Worlds, key: KeyTuple) -> tuple[Write, Awaitable[object]]:
        item, returning = self.item(key), self.returning()
        new = {"n": item["n"], "token": item["token"]}
        write = Write("set", lambda s: changed(base(key), s, **new), returning=returning)
        return write, self.table.update(key, SET, new, returning=returning)

    def swap(self, world: Worlds, key: KeyTuple) -> tuple[Write, Awaitable[object]]:
        """Compare and set: the way to count."""
        item, returning = self.item(key), self.returning()
        new = {"n": item["n"], "token": item["token"]}
        old: Any = attribute(self.dice.choice(world.possible), "token") or "none"
        write = Write(
            "swap",
            lambda s: changed(base(key), s, **new),
            lambda s: attribute(s, "token") == old,
            returning,
        )
        values = {**new, "old": old}
        return write, self.table.update(key, SET, values, condition=SAME, returning=returning)

    def add(self, world: Worlds, key: KeyTuple) -> tuple[Write, Awaitable[object]]:
        more, returning = frozenset({next(self.tokens)}), self.returning()
        write = Write(
            "add", lambda s: changed(base(key), s, members=members(s) | more), returning=returning
        )
        return write, self.table.update(key, ADD, {"members": more}, returning=returning)

    def take(self, world: Worlds, key: KeyTuple) -> tuple[Write, Awaitable[object]]:
        known = sorted(members(self.dice.choice(world.possible))) or ["nobody"]
        less, returning = frozenset({self.dice.choice(known)}), self.returning()
        write = Write(
            "take",
            lambda s: s and changed({}, s, members=members(s) - less),
            returning=returning,
        )
        return write, self.table.update(key, TAKE, {"members": less}, returning=returning)

    def remove(self, world: Worlds, key: KeyTuple) -> tuple[Write, Awaitable[object]]:
        returning = self.returning()
        write = Write("remove", lambda s: s and changed({}, s, n=None), returning=returning)
        return write, self.table.update(key, REMOVE, returning=returning)

    def delete(self, world: Worlds, key: KeyTuple) -> tuple[Write, Awaitable[object]]:
        returning = self.dice.choice((Returning.NOTHING, Returning.OLD))
        write = Write("delete", lambda _: None, returning=returning)
        return write, self.table.delete(key, returning=returning)

    def delete_if(self, world: Worlds, key: KeyTuple) -> tuple[Write, Awaitable[object]]:
        old: Any = attribute(self.dice.choice(world.possible), "token") or "none"
        write = Write("delete if", lambda _: None, lambda s: attribute(s, "token") == old)
        return write, self.table.delete(key, condition=SAME, values={"old": old})

    def batch(self) -> Submitted:
        writes: list[tuple[Worlds, Write]] = []
        puts: list[Item] = []
        deletes: list[KeyTuple] = []
        for world in self.worlds:
            if self.dice.random() < 0.5:
                item = self.item(world.key)
                puts.append(item)
                writes.append((world, Write("batch put", lambda _, item=item: item)))  # type: ignore[misc]
            else:
                deletes.append(world.key)
                writes.append((world, Write("batch delete", lambda _: None)))
        return writes, self.table.batch_write(puts=puts, deletes=deletes)


def base(key: KeyTuple) -> Item:
    return {"user": key[0], "place": key[1]}
