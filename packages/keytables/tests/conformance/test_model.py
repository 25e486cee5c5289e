"""Any sequence of calls has the same results as on a dict."""

import asyncio
import operator
import tempfile
import types
from collections.abc import Awaitable, Callable, Coroutine, Generator
from pathlib import Path
from typing import Any, TypeVar, cast

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from keytables import (
    Attr,
    Condition,
    ConditionFailed,
    Index,
    Item,
    Key,
    Kind,
    Param,
    Range,
    Returning,
    Table,
    Update,
)
from support.clocks import ManualClock
from support.pages import items_of
from support.table_engines import CANDIDATES

T = TypeVar("T")

TABLE = Table(
    "model",
    Key("user"),
    Key("place"),
    indexes=(Index("by_n", Key("n", Kind.NUMBER)),),
    expiry="expiry",
)

keys = st.tuples(st.sampled_from(["u", "v"]), st.sampled_from(["a", "b", "ba", "c", "é"]))
numbers = st.sampled_from([0, 1, 1.5, 2])
names = st.frozensets(st.sampled_from(["x", "y", "z"]))
lives = st.sampled_from([None, 0, 5, 50])

# Conditions, and the same as Python functions of an item and the parameter n.
CONDITIONS: list[tuple[Condition | None, Callable[[dict[str, Any], Any], bool]]] = [
    (None, lambda item, n: True),
    (Attr("user").absent(), lambda item, n: not item),
    (Attr("user").exists(), lambda item, n: bool(item)),
    (Attr("n") == Param("n"), lambda item, n: item.get("n") == n),
    (
        Attr("n").absent() | (Attr("n") < Param("n")),
        lambda item, n: "n" not in item or operator.lt(item["n"], n),
    ),
    (
        ~(Attr("s").exists() & (Attr("n") >= Param("n"))),
        lambda item, n: not ("s" in item and "n" in item and operator.ge(item["n"], n)),
    ),
]
conditions = st.sampled_from(CONDITIONS)

bursts = st.lists(
    st.tuples(
        st.sampled_from(["put", "put", "delete", "delete", "take", "add", "get", "turn"]), numbers
    ),
    min_size=2,
    max_size=12,
)

CHANGE = Update(set=("n", "expiry"), remove=("gone",), add_to={"s": Param("s")})
SHRINK = Update(take_from={"s": Param("s")})


class Machine(RuleBasedStateMachine):
    """An engine, compared to a dict."""

    make: Any

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.loop = asyncio.new_event_loop()
        self.clock = ManualClock(4_000_000_000.0)  # as the other tests
        self.store = self.make(Path(self.folder.name), self.clock)
        self.items: dict[tuple[str, str], Item] = {}
        self.submitted: list[tuple[Awaitable[object], object]] = []
        self.start()

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return self.loop.run_until_complete(coroutine)

    def start(self) -> None:
        self.engine = self.run(self.store.open())
        self.table = self.run(self.engine.ensure_table(TABLE))

    def teardown(self) -> None:
        self.complete_writes()
        self.run(self.engine.close())
        self.run(self.store.clear())
        self.loop.run_until_complete(self.loop.shutdown_default_executor())
        self.loop.close()
        self.folder.cleanup()

    # --- the model ----------------------------------------------------------------------------

    def live(self, key: tuple[str, str]) -> Item | None:
        item = self.items.get(key)
        expiry = item.get("expiry") if item else None
        if isinstance(expiry, int | float) and 0 < expiry <= self.clock.now:
            return None
        return item

    def expiry(self, life: int | None) -> float | None:
        return life if not life else self.clock.now + life

    def expect(self, call: Callable[[], Awaitable[object]], expected: object) -> None:
        """Submit without waiting; the result is checked later."""

        async def submit() -> None:
            self.submitted.append((call(), expected))

        self.run(submit())

    @rule()
    def complete_writes(self) -> None:
        async def check() -> None:
            for awaitable, expected in self.submitted:
                if expected is ConditionFailed:
                    with pytest.raises(ConditionFailed):
                        await awaitable
                else:
                    assert await awaitable == expected

        self.run(check())
        self.submitted.clear()

    # --- writes -------------------------------------------------------------------------------

    @rule(key=keys, n=numbers, members=names, life=lives, condition=conditions, bound=numbers)
    def put(self, key: Any, n: Any, members: Any, life: Any, condition: Any, bound: Any) -> None:
        stated, holds = condition
        item: Item = {"user": key[0], "place": key[1], "n": n, "s": members, "gone": 1}
        item["expiry"] = self.expiry(life)
        expected: object = ConditionFailed
        if holds(self.live(key) or {}, bound):
            expected = None
            self.items[key] = {k: v for k, v in item.items() if v != frozenset()}
        self.expect(lambda: self.table.put(item, condition=stated, values={"n": bound}), expected)

    @rule(
        key=keys,
        n=numbers,
        members=names,
        life=lives,
        condition=conditions,
        returning=st.sampled_from(Returning),
    )
    def update(
        self, key: Any, n: Any, members: Any, life: Any, condition: Any, returning: Returning
    ) -> None:
        stated, holds = condition
        old, expiry = self.live(key), self.expiry(life)
        expected: object = ConditionFailed
        if holds(old or {}, n):
            new: Item = {**(old or {"user": key[0], "place": key[1]}), "n": n, "expiry": expiry}
            new.pop("gone", None)
            together = frozenset(new.get("s", ())) | members  # type: ignore[arg-type]
            new |= {"s": together} if together else {}
            self.items[key] = new
            expected = {Returning.OLD: old, Returning.NEW: new}.get(returning)
        values = {"n": n, "s": members, "expiry": expiry}
        self.expect(
            lambda: self.table.update(key, CHANGE, values, condition=stated, returning=returning),
            expected,
        )

    @rule(key=keys, members=names, returning=st.sampled_from(Returning))
    def shrink(self, key: Any, members: Any, returning: Returning) -> None:
        old = new = self.live(key)
        if old is not None:
            new = dict(old)
            left = frozenset(new.pop("s", ())) - members  # type: ignore[arg-type]
            new |= {"s": left} if left else {}
            self.items[key] = new
        expected = {Returning.OLD: old, Returning.NEW: new}.get(returning)
        self.expect(
            lambda: self.table.update(key, SHRINK, {"s": members}, returning=returning), expected
        )

    @rule(key=keys, condition=conditions, bound=numbers, old=st.booleans())
    def delete(self, key: Any, condition: Any, bound: Any, old: bool) -> None:
        stated, holds = condition
        stored = self.live(key)
        expected: object = ConditionFailed
        if holds(stored or {}, bound):
            expected = stored if old else None
            self.items.pop(key, None)
        returning = Returning.OLD if old else Returning.NOTHING
        values = {"n": bound}
        self.expect(
            lambda: self.table.delete(key, condition=stated, values=values, returning=returning),
            expected,
        )

    @rule(puts=st.sets(keys, max_size=4), deletes=st.sets(keys, max_size=4), n=numbers)
    def batch(self, puts: Any, deletes: Any, n: Any) -> None:
        items: list[Item] = [{"user": user, "place": place, "n": n} for user, place in puts]
        for key in deletes:
            self.items.pop(key, None)
        for key, item in zip(puts, items, strict=True):
            self.items[key] = item
        self.expect(lambda: self.table.batch_write(puts=items, deletes=deletes - puts), None)

    @rule(key=keys, burst=bursts)
    def many_at_once(self, key: Any, burst: list[tuple[str, Any]]) -> None:
        """Submit writes to two keys, and reads in between, in one or a few turns of the loop.

        A read sees what was submitted before it, and may see what came after.
        """

        async def submit() -> None:
            reads: list[tuple[Coroutine[Any, Any, Item | None], Any, list[Item | None]]] = []
            for number, (kind, n) in enumerate(burst):
                at = key if number % 4 else (key[0], "c")
                if kind == "turn":
                    await asyncio.sleep(0)
                elif kind == "get":
                    reads.append((begun(self.table.get(at)), at, []))
                else:
                    self.one_of_many(kind, at, n)
                for _, place, states in reads:
                    states.append(self.live(place))
            for read, _, states in reads:
                assert await read in states

        self.run(submit())

    def one_of_many(self, kind: str, key: tuple[str, str], n: Any) -> None:
        old = self.live(key)
        item: Item = {"user": key[0], "place": key[1], "n": n}
        expected: object = None
        awaitable: Awaitable[object]
        if kind == "put":
            awaitable = self.table.put(item)
            self.items[key] = item
        elif kind == "delete":
            awaitable = self.table.delete(key)
            self.items.pop(key, None)
        elif kind == "take":
            awaitable = self.table.delete(key, returning=Returning.OLD)
            expected = old
            self.items.pop(key, None)
        else:
            awaitable = self.table.put(item, condition=Attr("user").absent())
            if old is None:
                self.items[key] = item
            else:
                expected = ConditionFailed
        self.submitted.append((awaitable, expected))

    @rule(seconds=st.sampled_from([1, 5, 60]))
    def time_passes(self, seconds: int) -> None:
        # Conditions are evaluated when the write is applied, with the time of then.
        self.complete_writes()
        self.clock.advance(seconds)

    @rule()
    def reopen(self) -> None:
        self.complete_writes()
        self.run(self.engine.close())
        self.start()

    # --- reads --------------------------------------------------------------------------------

    @rule(wanted=st.lists(keys, max_size=5))
    def batch_get(self, wanted: Any) -> None:
        found = self.run(self.table.batch_get(wanted))
        expected = {key: self.live(key) for key in wanted}
        assert {(item["user"], item["place"]): item for item in found} == {
            key: item for key, item in expected.items() if item is not None
        }

    @rule(
        user=st.sampled_from(["u", "v"]),
        sort=st.sampled_from(
            [
                None,
                Range(gt="a"),
                Range(ge="b", lt="c"),
                Range(le="ba"),
                Range(prefix="b"),
                Range(lt="é"),
            ]
        ),
        limit=st.sampled_from([None, 1, 2]),
        descending=st.booleans(),
    )
    def query(self, user: str, sort: Range | None, limit: int | None, descending: bool) -> None:
        expected = [
            item
            for key in sorted(self.items, key=lambda key: key[1].encode(), reverse=descending)
            if key[0] == user and within(key[1], sort) and (item := self.live(key)) is not None
        ]
        options: dict[str, Any] = {"sort": sort, "limit": limit, "descending": descending}
        assert self.run(items_of(self.table.query, user, **options)) == expected

    @rule(n=numbers)
    def query_index(self, n: Any) -> None:
        found = self.run(self.table.query_index("by_n", n)).items
        expected = [item for item in map(self.live, self.items) if item and item.get("n") == n]
        assert sorted(found, key=str) == sorted(expected, key=str)

    @invariant()
    def every_item_is_as_in_the_dict(self) -> None:
        for key in self.items:
            assert self.run(self.table.get(key)) == self.live(key)


def begun(read: Coroutine[Any, Any, T]) -> Coroutine[Any, Any, T]:
    """Run a read until it waits. Await the result to run the rest."""
    try:
        first = read.send(None)
    except StopIteration as returned:
        value: T = returned.value

        async def nothing_left() -> T:
            return value

        return nothing_left()

    @types.coroutine
    def rest() -> Generator[Any, Any, T]:
        waits = first
        while True:
            try:
                try:
                    sent = yield waits
                except Exception as failure:  # noqa: BLE001 - of what the read waits for
                    waits = read.throw(failure)
                else:
                    waits = read.send(sent)
            except StopIteration as returned:
                return cast(T, returned.value)

    async def awaited() -> T:
        return await rest()

    return awaited()


def within(place: str, sort: Range | None) -> bool:
    if sort is None:
        return True
    bounds: list[tuple[object, Callable[[bytes, bytes], bool]]] = [
        (sort.gt, operator.gt),
        (sort.ge, operator.ge),
        (sort.lt, operator.lt),
        (sort.le, operator.le),
        (sort.prefix, bytes.startswith),
    ]
    return all(
        bound is None or holds(place.encode(), str(bound).encode()) for bound, holds in bounds
    )


@pytest.mark.parametrize("name", sorted(CANDIDATES))
def test_an_engine_behaves_like_a_dict(name: str, tmp_path: Path) -> None:
    # A server that is missing skips the test here; inside of the machine that would be a failure.
    CANDIDATES[name].make(tmp_path, ManualClock())

    class Case(Machine):
        make = staticmethod(CANDIDATES[name].make)

    run_state_machine_as_test(
        Case,
        settings=settings(
            max_examples=CANDIDATES[name].examples,
            stateful_step_count=25,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
