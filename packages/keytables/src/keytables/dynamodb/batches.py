"""Many items in few calls.

The one rule: what the database left undone is asked for again, until nothing is left or time is up.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from keytables.dynamodb.codec import WireItem, dumps
from keytables.dynamodb.pauses import Pauses
from keytables.dynamodb.remote import Remote
from keytables.errors import Throttled

__all__ = ["get_all", "write_all", "write_requests"]

MAX_WRITES: Final = 25
MAX_KEYS: Final = 100
MAX_BYTES: Final = 15 << 20
"""Bytes of one request; DynamoDB takes 16 MB."""

PATIENCE: Final = 10.0
"""Seconds for one call, and for what is left undone of one."""


def write_requests(name: str, writes: Sequence[object]) -> list[bytes]:
    """Return the requests that apply these writes, members of BatchWriteItem, of different items.

    Raises SchemaError.
    """
    found: list[bytes] = []
    for start in range(0, len(writes), MAX_WRITES):
        found += _bounded(name, writes[start : start + MAX_WRITES])
    return found


def _bounded(name: str, writes: Sequence[object]) -> list[bytes]:
    request = dumps({"RequestItems": {name: writes}})
    if len(request) <= MAX_BYTES or len(writes) == 1:
        return [request]
    half = len(writes) // 2
    return [*_bounded(name, writes[:half]), *_bounded(name, writes[half:])]


async def write_all(remote: Remote, requests: Iterable[bytes]) -> None:
    """Apply the writes of these requests.

    Raises Throttled; some of them may then be applied.
    """
    for request in requests:
        left: bytes = request
        pauses = Pauses(PATIENCE)
        while True:
            answer = await remote.answer("BatchWriteItem", left, patience=PATIENCE)
            undone = answer.get("UnprocessedItems", {}).get(remote.name)
            if not undone:
                break
            left = dumps({"RequestItems": {remote.name: undone}})
            await pauses.pause(_left_undone("BatchWriteItem", remote))


async def get_all(
    remote: Remote, keys: Sequence[WireItem], names: Sequence[str] = ()
) -> list[WireItem]:
    """Return the items of different keys that are there, alive or not; ``names``: only these
    attributes of them.
    """
    options: dict[str, object] = {"ConsistentRead": True}
    if names:
        aliases = {f"#{number}": name for number, name in enumerate(names)}
        options["ProjectionExpression"] = ", ".join(aliases)
        options["ExpressionAttributeNames"] = aliases
    found: list[WireItem] = []
    for start in range(0, len(keys), MAX_KEYS):
        left: Sequence[WireItem] = keys[start : start + MAX_KEYS]
        pauses = Pauses(PATIENCE)
        while True:
            request = {"RequestItems": {remote.name: {**options, "Keys": left}}}
            answer = await remote.answer("BatchGetItem", dumps(request), patience=PATIENCE)
            items = answer.get("Responses", {}).get(remote.name, [])
            found += items
            left = answer.get("UnprocessedKeys", {}).get(remote.name, {}).get("Keys", [])
            if not left:
                break
            if not items:
                await pauses.pause(_left_undone("BatchGetItem", remote))
    return found


def _left_undone(operation: str, remote: Remote) -> Throttled:
    return Throttled(
        f"{operation} on table {remote.table.name!r}: the database leaves items undone"
    )
