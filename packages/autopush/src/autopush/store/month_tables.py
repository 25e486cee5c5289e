"""The care of monthly message tables: the next one made, old ones lowered, older ones dropped.

Rule: the step list is worked out from names, capacities and the clock alone, so that what a dry run
shows is what would be done; every step may be done twice.

Where tables do not rotate there is nothing to do. Nodes make the table of the month themselves,
so where it is missing none of them has seen this month: then nothing is lowered or dropped, for the
clock here may be wrong.
"""

from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import Final, NamedTuple

from autopush.store.months import Month
from autopush.store.tables import TablePlan, message_table
from keytables import Capacity, Engine, TableNotFound

SETTLED: Final = 4
"""The day of the month from which on last month's table has little left to do, and the table of the
month before nothing.
"""

KEPT: Final = 2
"""The fewest months that are kept: this one and the previous one are in use."""


class Make(NamedTuple):
    """Make a table; without a capacity it is billed by use."""

    table: str
    capacity: Capacity | None


class Provision(NamedTuple):
    """Give a table another capacity."""

    table: str
    capacity: Capacity


class Drop(NamedTuple):
    """Drop a table and what it holds."""

    table: str


Step = Make | Provision | Drop
Found = Mapping[str, Capacity | None]
"""The message tables there are, and what they are provisioned for."""


async def find(engine: Engine, plan: TablePlan) -> Found:
    """The tables of months in the store."""
    found = {}
    for name in await engine.table_names():
        if Month.parse(plan.message, name):
            with suppress(TableNotFound):  # another run has dropped it
                found[name] = await engine.capacity(name)
    return found


def steps(found: Found, plan: TablePlan, now: float, *, keep: int, idle: Capacity) -> list[Step]:
    """What is to be done to the message tables at `now`.

    `keep`: months to keep, this one included, at least two; `idle`: what is enough for a table of
    another month.
    """
    if not plan.rotating:
        return []
    this = Month.at(now)
    name, following = this.table(plan.message), this.next.table(plan.message)
    capacity = found.get(name, plan.message_capacity)
    todo: list[Step] = []
    if following not in found:
        todo.append(Make(following, capacity))
    elif capacity is not None and found[following] not in (None, capacity):
        todo.append(Provision(following, capacity))
    if name not in found:
        return todo
    oldest = this
    for _ in range(max(keep, KEPT) - 1):
        oldest = oldest.previous
    settled = datetime.fromtimestamp(now, UTC).day >= SETTLED
    # Who connected in the last hours of a month may still be on the way to its table.
    too_old = oldest if settled else oldest.previous
    for table in sorted(found, reverse=True):
        month = Month.parse(plan.message, table)
        if month is None or month >= this:
            continue
        if month < too_old:
            todo.append(Drop(table))
        elif month < this.previous or settled:
            todo += _lowered(table, found[table], idle)
    return todo


def _lowered(table: str, capacity: Capacity | None, idle: Capacity) -> list[Provision]:
    if capacity is None:
        return []
    lower = Capacity(min(capacity.read, idle.read), min(capacity.write, idle.write))
    return [] if lower == capacity else [Provision(table, lower)]


async def carry_out(engine: Engine, step: Step) -> None:
    """Do one step; doing it again changes nothing."""
    match step:
        case Make(table, capacity):
            await engine.ensure_table(message_table(table), capacity=capacity)
        case Provision(table, capacity):
            with suppress(TableNotFound):
                await engine.set_capacity(table, capacity)
        case Drop(table):
            await engine.drop_table(table)
