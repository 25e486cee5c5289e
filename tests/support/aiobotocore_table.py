"""Writes of the reference engine."""

from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from typing import Any, TypeVar, cast

from keytables import (
    Condition,
    ConditionFailed,
    Item,
    KeytablesError,
    KeyTuple,
    Returning,
    Scalar,
    SchemaError,
    Table,
    Update,
    Values,
)
from keytables.checks import KeyCheck, check_names, check_size, index_checks, item_size, snapshot
from support.aiobotocore_calls import Calls, calling
from support.aiobotocore_expressions import (
    INT64,
    Change,
    Expressions,
    holds_when_absent,
    item_of,
    wire_item,
)
from support.aiobotocore_reading import AiobotocoreReads

T = TypeVar("T")

_BATCH = 25
_BATCH_BYTES = 900_000


class AiobotocoreTable(AiobotocoreReads):
    """One table. Made by the engine."""

    def __init__(self, calls: Calls, table: Table) -> None:
        super().__init__(calls, table)
        self._kinds: dict[str, KeyCheck] = {}
        for index in table.indexes:
            names = [key.name for key in (index.partition, index.sort) if key is not None]
            self._kinds |= dict(zip(names, index_checks(index), strict=True))

    def _submit(self, check: Callable[[], Callable[[], Coroutine[Any, Any, T]]]) -> Awaitable[T]:
        """Check now, do it in turn; a refusal is answered like any other error."""
        try:
            work = check()
        except KeytablesError as error:
            refusal = error

            async def refuse() -> T:
                raise refusal

            work = refuse
        return self._calls.in_turn(self.table.name, work)

    def _checked(self, attributes: Mapping[str, Any]) -> Item:
        """The attributes as they are now, fit to be stored; empty sets left out."""
        check_names(dict(attributes))
        taken = {name: snapshot(value, name) for name, value in attributes.items()}
        taken = {name: value for name, value in taken.items() if value != frozenset()}
        for name in taken.keys() & self._kinds.keys():
            self._kinds[name](taken[name])
        expiry = taken.get(self.table.expiry) if self.table.expiry else None
        if expiry is not None and (isinstance(expiry, bool) or not isinstance(expiry, int | float)):
            raise SchemaError("an expiry is a number")
        if isinstance(expiry, int | float) and expiry >= INT64:
            raise SchemaError("an expiry is out of range")
        wire_item(taken)
        return taken

    def _checked_item(self, item: Item) -> Item:
        taken = self._checked(item)
        self._key_of(taken)
        check_size(taken)
        return taken

    def _guard(self, expressions: Expressions, condition: Condition | None) -> str:
        """The condition as it judges an expired item: like none at all."""
        if condition is None:
            return ""
        text = expressions.condition(condition)
        if self.table.expiry is None:
            return text
        expired = expressions.expired(self.table.expiry, self._calls.clock())
        live = f"((NOT {expired}) AND {text})"
        return f"({live} OR {expired})" if holds_when_absent(condition) else live

    async def _judged(self, call: Awaitable[T]) -> T:
        """The answer of a conditional write; the item of a refusal is only a live one."""
        try:
            with calling(self.table.name):
                return await call
        except ConditionFailed as failure:
            raise ConditionFailed(self._live(failure.item)) from None

    # --- put and delete -----------------------------------------------------------------------

    def put(
        self, item: Item, *, condition: Condition | None = None, values: Values | None = None
    ) -> Awaitable[None]:
        def check() -> Callable[[], Coroutine[Any, Any, None]]:
            taken, given = self._checked_item(item), _taken(values)
            self._guard(Expressions(given), condition)
            return lambda: self._put(taken, condition, given)

        return self._submit(check)

    async def _put(self, item: Item, condition: Condition | None, values: Values) -> None:
        expressions = Expressions(values)
        await self._judged(
            self._client.put_item(
                **self._place,
                Item=wire_item(item),
                ReturnValuesOnConditionCheckFailure="ALL_OLD",
                **expressions.arguments(ConditionExpression=self._guard(expressions, condition)),
            )
        )

    def delete(
        self,
        key: KeyTuple,
        *,
        condition: Condition | None = None,
        values: Values | None = None,
        returning: Returning = Returning.NOTHING,
    ) -> Awaitable[Item | None]:
        def check() -> Callable[[], Coroutine[Any, Any, Item | None]]:
            if returning is Returning.NEW:
                raise SchemaError("a delete can return nothing or the old item")
            checked, given = self._key(key), _taken(values)
            self._guard(Expressions(given), condition)
            return lambda: self._delete(checked, condition, given, returning)

        return self._submit(check)

    async def _delete(
        self,
        key: dict[str, Scalar],
        condition: Condition | None,
        values: Values,
        returning: Returning,
    ) -> Item | None:
        expressions = Expressions(values)
        answer = await self._judged(
            self._client.delete_item(
                **self._place,
                Key=wire_item(key),
                ReturnValues="ALL_OLD",
                ReturnValuesOnConditionCheckFailure="ALL_OLD",
                **expressions.arguments(ConditionExpression=self._guard(expressions, condition)),
            )
        )
        if returning is Returning.NOTHING or not answer.get("Attributes"):
            return None
        return self._live(item_of(answer["Attributes"]))

    # --- update -------------------------------------------------------------------------------

    def update(
        self,
        key: KeyTuple,
        update: Update,
        values: Values | None = None,
        *,
        condition: Condition | None = None,
        returning: Returning = Returning.NOTHING,
    ) -> Awaitable[Item | None]:
        def check() -> Callable[[], Coroutine[Any, Any, Item | None]]:
            checked, change = self._key(key), Change(update, _taken(values))
            self._guard(Expressions(change.values), condition)
            if not change.names.isdisjoint(self.table.key_names):
                raise SchemaError("a key cannot be changed")
            self._checked(change.assigned | change.added)
            return lambda: self._update(checked, change, condition, returning)

        return self._submit(check)

    async def _update(
        self,
        key: dict[str, Scalar],
        change: Change,
        condition: Condition | None,
        returning: Returning,
    ) -> Item | None:
        while True:
            try:
                return await self._update_live(key, change, condition, returning)
            except ConditionFailed as failure:
                if failure.item is not None:
                    raise
                if condition is not None and not holds_when_absent(condition):
                    raise
            if not change.creates:
                return None
            # An expired item is in the place: what the update makes of none takes it.
            anew = {**key, **change.of_nothing}
            place = Expressions(None)
            expired = place.expired(cast(str, self.table.expiry), self._calls.clock())
            try:
                await self._judged(
                    self._client.put_item(
                        **self._place,
                        Item=wire_item(anew),
                        **place.arguments(ConditionExpression=expired),
                    )
                )
            except ConditionFailed:
                continue  # another process was first
            return anew if returning is Returning.NEW else None

    async def _update_live(
        self,
        key: dict[str, Scalar],
        change: Change,
        condition: Condition | None,
        returning: Returning,
    ) -> Item | None:
        expressions = Expressions(change.values)
        terms = [expressions.condition(condition)] if condition is not None else []
        if self.table.expiry is not None:
            expired = expressions.expired(self.table.expiry, self._calls.clock())
            terms.append(f"(NOT {expired})")
        if not change.creates:
            terms.append(f"attribute_exists({expressions.name(self.table.partition.name)})")
        answer = await self._judged(
            self._client.update_item(
                **self._place,
                Key=wire_item(key),
                ReturnValues="ALL_NEW" if returning is Returning.NEW else "ALL_OLD",
                ReturnValuesOnConditionCheckFailure="ALL_OLD",
                **expressions.arguments(
                    UpdateExpression=change.expression(expressions),
                    ConditionExpression=" AND ".join(terms),
                ),
            )
        )
        if returning is Returning.NOTHING or not answer.get("Attributes"):
            return None
        return item_of(answer["Attributes"])

    # --- batches ------------------------------------------------------------------------------

    def batch_write(
        self, *, puts: Iterable[Item] = (), deletes: Iterable[KeyTuple] = ()
    ) -> Awaitable[None]:
        def check() -> Callable[[], Coroutine[Any, Any, None]]:
            items = [self._checked_item(item) for item in puts]
            new = {tuple(self._key_of(item).values()) for item in items}
            gone = {tuple(key): self._key(key) for key in deletes}
            if len(new) < len(items) or not new.isdisjoint(gone):
                raise SchemaError("a batch puts a key twice, or puts and deletes it")
            requests: list[tuple[int, dict[str, Any]]] = [
                *((item_size(item), {"PutRequest": {"Item": wire_item(item)}}) for item in items),
                *((0, {"DeleteRequest": {"Key": wire_item(key)}}) for key in gone.values()),
            ]
            return lambda: self._batch_write(requests)

        return self._submit(check)

    async def _batch_write(self, requests: list[tuple[int, dict[str, Any]]]) -> None:
        while requests:
            now: list[dict[str, Any]] = []
            room = _BATCH_BYTES
            while requests and len(now) < _BATCH and (requests[0][0] <= room or not now):
                size, request = requests.pop(0)
                now.append(request)
                room -= size
            answer = await self._client.batch_write_item(RequestItems={self._name: cast(Any, now)})
            left = answer["UnprocessedItems"].get(self._name, [])
            requests += [(0, cast(dict[str, Any], request)) for request in left]


def _taken(values: Values | None) -> Values:
    return {name: snapshot(value, name) for name, value in (values or {}).items()}
