"""One page of a query or scan, from as many answers of the database as it takes.

The one rule: ``limit`` counts what the caller gets to see, not what the database read.
"""

from collections.abc import Sequence
from typing import Final, cast

from keytables.dynamodb.batches import get_all
from keytables.dynamodb.codec import WireItem, dumps, item_of
from keytables.dynamodb.remote import Remote
from keytables.errors import SchemaError
from keytables.schema import Cursor, Page
from keytables.values import Item, Scalar

__all__ = ["read_page"]

ROUNDS: Final = 20
"""Calls for one page. Where so many find too little, the page is short."""

WIDE: Final = 500
"""Items asked for where the first call found too few alive, or where each has to be looked up."""


async def read_page(
    remote: Remote,
    operation: str,
    request: bytes,
    *,
    place: Sequence[str],
    limit: int | None,
    start: WireItem | None,
    without: Sequence[Scalar] = (),
    keys_only: bool = False,
) -> Page:
    """Return what ``request`` (JSON without its last brace) finds after the key ``start``.

    ``place``: the attributes that a cursor is made of; ``without``: values of the first of them to
    be left out; ``keys_only``: the database answers without the expiry, so it is looked up.
    """
    looked_up = keys_only and remote.table.expiry is not None
    found: list[Item] = []
    # One more than wanted: it tells whether there is more.
    ask = (WIDE if looked_up else None) if limit is None else limit + 1
    for _ in range(ROUNDS):
        body = request
        if ask is not None:
            body += b',"Limit":%d' % ask
        if start is not None:
            body += b',"ExclusiveStartKey":' + dumps(start)
        now = remote.clock()
        answer = await remote.answer(operation, body + b"}")
        items = [item_of(item) for item in answer.get("Items", ())]
        start = answer.get("LastEvaluatedKey")
        if without:
            items = [item for item in items if item[place[0]] not in without]
        if looked_up:
            items = await _still_alive(remote, items)
        elif remote.table.expiry is not None:
            items = [item for item in items if remote.alive(item, now)]
        found += items
        if limit is None or start is None or len(found) > limit:
            break
        ask = max(limit + 1, WIDE)
    last = None if start is None else item_of(start)
    if limit is not None and len(found) > limit:
        found = found[:limit]
        last = found[-1]
    return Page(found, None if last is None else Cursor(_values(last, place)))


async def _still_alive(remote: Remote, items: list[Item]) -> list[Item]:
    """Return those that the table itself knows, and not as expired."""
    names, expiry = remote.table.key_names, remote.table.expiry
    assert expiry is not None
    keys = [remote.key(_values(item, names)) for item in items]
    now = remote.clock()
    there = map(item_of, await get_all(remote, keys, (*names, expiry)))
    alive = {_values(item, names) for item in there if remote.alive(item, now)}
    return [item for item in items if _values(item, names) in alive]


def _values(item: Item, names: Sequence[str]) -> tuple[Scalar, ...]:
    """Return the values of key attributes, which are scalars."""
    return tuple(cast(Scalar, item[name]) for name in names)


def check_limit(limit: int | None) -> None:
    """Raise SchemaError for a limit below one."""
    if limit is not None and limit < 1:
        raise SchemaError("a limit must be at least 1")
