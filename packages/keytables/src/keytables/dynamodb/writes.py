"""Writes on their way to the database: order, requests, and the outcome of conditional ones.

Rule: writes of one item reach the database one after the other, in the order submitted; those of
different items at the same time. A write whose response was lost is recognised by its effect: if
its condition fails in a later attempt, and the item is as this write leaves it, it was applied.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Final, TypeAlias, TypeVar

import msgspec

from keytables.dynamodb.client import ApiResponse
from keytables.dynamodb.codec import (
    AttributeMap,
    AttributeValue,
    decode_item,
    dumps,
    encode_value,
    equal_items,
    loads,
)
from keytables.dynamodb.expressions import (
    NOW,
    Placeholders,
    UpdateActions,
    create_condition,
    holds_for_missing_item,
    is_ordered,
    update_actions,
    update_condition,
    write_condition,
)
from keytables.dynamodb.retries import ServiceError
from keytables.dynamodb.table_client import TableClient, request_head
from keytables.errors import ConditionFailed, SchemaError, Throttled, Unavailable
from keytables.expressions import (
    And,
    Compare,
    Condition,
    Not,
    Operand,
    Or,
    Param,
    Returning,
    Update,
    check_update,
)
from keytables.schema import Table
from keytables.values import Item, KeyTuple, Scalar, Values

# --- their order ----------------------------------------------------------------------------------

_T = TypeVar("_T")


class InFlightLimit:
    """Limits the writes that one engine has in flight, and their bytes.

    A write may be larger than what is left, but none begins when nothing is left. ``max_wait``:
    seconds a write waits for earlier ones; then it is Throttled, unsent.
    """

    def __init__(
        self, max_writes: int = 10_000, max_bytes: int = 64 << 20, max_wait: float = 30.0
    ) -> None:
        self._writes, self._bytes = max_writes, max_bytes
        self.max_wait = max_wait
        self._closed = False

    def acquire(self, writes: int, size: int) -> None:
        """Raises Throttled, and Unavailable once the limit is closed."""
        if self._closed:
            raise Unavailable("the store is closed")
        if self._writes <= 0 or self._bytes <= 0:
            raise Throttled("too many writes are on their way to the database")
        self._writes -= writes
        self._bytes -= size

    def release(self, writes: int, size: int) -> None:
        self._writes += writes
        self._bytes += size

    def close(self) -> None:
        self._closed = True


class WriteSequencer:
    """The incomplete writes of one table. Reads wait for those submitted before them."""

    def __init__(self, limit: InFlightLimit) -> None:
        self._limit = limit
        self._loop = asyncio.get_running_loop()
        self._last: dict[Scalar, dict[KeyTuple, asyncio.Task[None]]] = {}
        """The last write of each item, by partition."""

    def submit(
        self, keys: Sequence[KeyTuple], size: int, write: Callable[[], Awaitable[_T]]
    ) -> asyncio.Future[_T]:
        """Call ``write`` once earlier writes of the items of these keys are complete.

        Cancelling the future does not stop it. Raises Throttled and Unavailable; the future fails
        with Throttled if the earlier writes take too long.
        """
        self._limit.acquire(len(keys), size)
        earlier: set[asyncio.Task[None]] = set()
        for key in keys:
            partition = self._last.get(key[0])
            if partition is not None and key in partition:
                earlier.add(partition[key])
        result: asyncio.Future[_T] = self._loop.create_future()
        task = self._loop.create_task(self._run(keys, size, earlier, write, result))
        for key in keys:
            self._last.setdefault(key[0], {})[key] = task
        return result

    async def wait_for_item(self, key: KeyTuple) -> None:
        partition = self._last.get(key[0])
        if partition is not None and (task := partition.get(key)) is not None:
            await asyncio.wait((task,))

    async def wait_for_partition(self, value: Scalar) -> None:
        partition = self._last.get(value)
        if partition is not None:
            await asyncio.wait(set(partition.values()))

    async def wait_for_all(self) -> None:
        if self._last:
            await asyncio.wait({task for tasks in self._last.values() for task in tasks.values()})

    async def _run(
        self,
        keys: Sequence[KeyTuple],
        size: int,
        earlier: Collection[asyncio.Task[None]],
        write: Callable[[], Awaitable[_T]],
        result: asyncio.Future[_T],
    ) -> None:
        try:
            if earlier:
                deadline = self._loop.time() + self._limit.max_wait
                await asyncio.wait(earlier)
                if self._loop.time() > deadline:
                    raise Throttled("the writes before it took too long")
            value = await write()
            if not result.done():
                result.set_result(value)
        except asyncio.CancelledError:  # the loop ends
            result.cancel()
            raise
        except Exception as error:  # noqa: BLE001 - passed on by the future
            if not result.done():
                result.set_exception(error)
        finally:
            del result  # it refers to the error, and that to this frame
            self._limit.release(len(keys), size)
            self._forget(keys)

    def _forget(self, keys: Iterable[KeyTuple]) -> None:
        own = asyncio.current_task()
        for key in keys:
            partition = self._last[key[0]]
            if partition[key] is own:
                del partition[key]
                if not partition:
                    del self._last[key[0]]


# --- their requests -------------------------------------------------------------------------------
#
# Compiled once for each condition and update, so that a call only adds values. Where parameters are
# the empty set, which cannot be sent, the expression is another one, compiled for these parameters.

ValueCheck: TypeAlias = Callable[[object], object]
"""Raises SchemaError for a value that an attribute cannot hold."""

_RETURNING: Final = {Returning.NOTHING: "NONE", Returning.OLD: "ALL_OLD", Returning.NEW: "ALL_NEW"}
_NO_VALUES: Final[Values] = {}
_NO_ACTIONS: Final = UpdateActions({}, (), {}, {})


@dataclass(frozen=True, slots=True)
class CompiledExpression:
    """A request without its key or item, and values. ``params``: parameters and placeholders."""

    begin: bytes
    params: tuple[tuple[str, str], ...]
    literals: Mapping[str, AttributeValue]
    needs_now: bool
    actions: UpdateActions

    @classmethod
    def of(
        cls, head: bytes, to: Placeholders, condition: str | None, actions: UpdateActions
    ) -> "CompiledExpression":
        members: dict[str, object] = {}
        if condition is not None:
            members["ConditionExpression"] = condition
            members["ReturnValuesOnConditionCheckFailure"] = "ALL_OLD"
        if update := actions.text(to):
            members["UpdateExpression"] = update
        if to.names:
            members["ExpressionAttributeNames"] = {
                placeholder: name for name, placeholder in to.names.items()
            }
        begin = head + b"," + dumps(members)[1:-1] if members else head
        return cls(begin, tuple(to.params.items()), to.literals, to.needs_now, actions)


class BoundExpression(msgspec.Struct, frozen=True):
    """An expression with the values of one call, by their placeholders. ``encoded``: them in JSON,
    without the time that expiry is compared with.
    """

    expression: CompiledExpression
    values: Mapping[str, AttributeValue]
    encoded: bytes

    def request(self, target: bytes, now: float) -> bytes:
        """Return the request for a key or item, given as a member in JSON. ``now``: of sending."""
        begin, values = self.expression.begin, self.encoded
        if not self.values:
            return b"%b,%b}" % (begin, target)
        if self.expression.needs_now:
            time = b'"%b":{"N":"%b"}' % (NOW.encode(), repr(now).encode())
            values = b"{%b,%b" % (time, values[1:])
        return b'%b,%b,"ExpressionAttributeValues":%b}' % (begin, target, values)


@dataclass(slots=True)
class _ParameterUse:
    ordered: bool = False
    members: bool = False
    checks: list[ValueCheck] = field(default_factory=list)


class WriteTemplate:
    """A conditional put or delete, or an update, of one table.

    ``checks``: of the attributes that are keys of an index, or the expiry. Raises SchemaError for
    an expression that is wrong whatever the values.
    """

    def __init__(
        self,
        table: Table,
        table_name: str,
        condition: Condition | None,
        update: Update | None = None,
        returning: Returning = Returning.NOTHING,
        *,
        checks: Mapping[str, ValueCheck],
    ) -> None:
        self._table = table
        self._condition, self._update = condition, update
        self._head = request_head(table_name, ReturnValues=_RETURNING[returning])
        self.returning = returning
        self.has_condition = condition is not None
        self.creates = update is not None and update.creates
        self._uses: dict[str, _ParameterUse] = {}
        self._compiled: dict[frozenset[str], CompiledExpression] = {}
        self.holds_for_missing_item = holds_for_missing_item(condition)
        if condition is not None:
            self._note_condition(condition)
        if update is not None:
            self._note_update(update, checks)
        self._compile(frozenset())

    def bind(self, values: Values | None) -> BoundExpression:
        """Return the expression with a copy of these values. Raises SchemaError for bad ones."""
        given = _NO_VALUES if values is None else values
        encoded: dict[str, AttributeValue] = {}
        empty: frozenset[str] = frozenset()
        for name, use in self._uses.items():
            if name not in given:
                raise SchemaError(f"no value for the parameter {name!r}")
            value = given[name]
            for check in use.checks:
                check(value)
            attribute = encode_value(value, name)
            if attribute is None:
                empty |= {name}
            else:
                encoded[name] = attribute
            if use.ordered and (attribute is None or not is_ordered(attribute)):
                raise SchemaError(f"{name!r}: only numbers, text and bytes have an order")
            if use.members and attribute is not None:
                _check_members(name, attribute)
        expression = self._compile(empty)
        bound = {placeholder: encoded[name] for name, placeholder in expression.params}
        bound.update(expression.literals)
        return BoundExpression(expression, bound, dumps(bound))

    def _compile(self, empty: frozenset[str]) -> CompiledExpression:
        compiled = self._compiled.get(empty)
        if compiled is not None:
            return compiled
        to, table, condition, update = (
            Placeholders(empty),
            self._table,
            self._condition,
            self._update,
        )
        if update is not None:
            actions = update_actions(update, to)
            text = update_condition(table, condition, to, creates=update.creates)
        else:
            actions = _NO_ACTIONS
            text = None if condition is None else write_condition(table, condition, to)
        made = self._compiled[empty] = CompiledExpression.of(self._head, to, text, actions)
        return made

    def _note_condition(self, condition: Condition) -> None:
        match condition:
            case And(left, right) | Or(left, right):
                self._note_condition(left)
                self._note_condition(right)
            case Not(inner):
                self._note_condition(inner)
            case Compare(_, operator, Param(name)):
                use = self._uses.setdefault(name, _ParameterUse())
                use.ordered = use.ordered or operator not in ("==", "!=")

    def _note_update(self, update: Update, checks: Mapping[str, ValueCheck]) -> None:
        members = {**update.added, **update.taken}
        check_update(self._table, update)
        for name, operand in update.assigned.items():
            self._note_assigned(operand, checks.get(name))
        for name, operand in members.items():
            if isinstance(operand, Param):
                self._uses.setdefault(operand.name, _ParameterUse()).members = True
            elif (literal := encode_value(operand, name)) is not None:
                _check_members(name, literal)

    def _note_assigned(self, operand: Operand, check: ValueCheck | None) -> None:
        if isinstance(operand, Param):
            use = self._uses.setdefault(operand.name, _ParameterUse())
            if check is not None:
                use.checks.append(check)
        elif check is not None:
            check(operand)


def create_request(table: Table, table_name: str, item: bytes, now: float) -> bytes:
    """Return the put of an item (as JSON) where there is none, or only an expired one."""
    to = Placeholders()
    head, condition = request_head(table_name), create_condition(table, to)
    expression = CompiledExpression.of(head, to, condition, _NO_ACTIONS)
    bound = BoundExpression(expression, expression.literals, dumps(expression.literals))
    return bound.request(b'"Item":' + item, now)


def _check_members(name: str, value: AttributeValue) -> None:
    if "SS" not in value:
        raise SchemaError(f"{name!r}: expected a set of text to add or take")


# --- conditional ones -----------------------------------------------------------------------------

MAX_ATTEMPTS: Final = 10
"""Of a conditional write whose item is changed by others each time."""


class _ConditionalWrite(ABC):
    """A write that has a condition, of the caller's or for expiry, or that returns an item.

    ``key``: as a member in JSON; ``item``: the whole item as JSON, for a put.
    """

    __slots__ = ("expression", "key", "maybe_applied", "table", "target", "template")

    operation: ClassVar[str]

    def __init__(
        self,
        table: TableClient,
        template: WriteTemplate,
        values: Values | None,
        key: bytes,
        *,
        item: bytes | None = None,
    ) -> None:
        self.table, self.template, self.key = table, template, key
        self.expression = template.bind(values)
        self.target = key if item is None else b'"Item":' + item
        self.maybe_applied = False

    @property
    def size(self) -> int:
        """Bytes, about as many as are sent."""
        return len(self.target) + len(self.expression.encoded)

    async def __call__(self) -> Item | None:
        """Do the write and return its result. Raises KeytablesError."""
        table, template = self.table, self.template
        try:
            for _ in range(MAX_ATTEMPTS):
                now = table.clock()
                try:
                    request = self.expression.request(self.target, now)
                    response = await table.call(self.operation, request)
                except ServiceError as error:
                    stored = await self._rejecting_item(error)
                else:
                    self.maybe_applied = self.maybe_applied or response.maybe_applied
                    return self.result(response, now)
                item = None if stored is None else decode_item(stored)
                is_live = item is not None and table.is_live(item, now)
                if self.maybe_applied and self.is_applied(stored, is_live=is_live):
                    return self.result_if_applied(item)
                if is_live and template.has_condition:
                    raise ConditionFailed(item)
                if not is_live and not template.holds_for_missing_item:
                    raise ConditionFailed(None)
                if not is_live:
                    done, result = await self.on_missing_item(expired=item is not None, now=now)
                    if done:
                        return result
            raise Throttled(
                f"{self.operation} on table {table.table.name!r}: the item changes all the time"
            )
        except Throttled as error:
            if not self.maybe_applied:
                raise
            raise Unavailable(f"{error}; an earlier attempt may have been applied") from error

    def result(self, _response: ApiResponse, _now: float) -> Item | None:
        return None

    @abstractmethod
    def is_applied(self, stored: AttributeMap | None, *, is_live: bool) -> bool:
        """Return whether an earlier attempt of this write can have left what is stored."""

    def result_if_applied(self, _stored: Item | None) -> Item | None:
        return None

    async def on_missing_item(
        self,
        *,
        expired: bool,  # noqa: ARG002
        now: float,  # noqa: ARG002
    ) -> tuple[bool, Item | None]:
        """Handle a missing or expired item; return whether this ends the write, and its result."""
        return False, None

    async def _rejecting_item(self, error: ServiceError) -> AttributeMap | None:
        self.maybe_applied = self.maybe_applied or error.maybe_applied
        return await self.table.rejecting_item(error, self.key)


class PutItem(_ConditionalWrite):
    __slots__ = ()

    operation = "PutItem"

    def is_applied(self, stored: AttributeMap | None, *, is_live: bool) -> bool:  # noqa: ARG002
        # Live or not: the item may be one that has expired already.
        item: AttributeMap = loads(b"{%b}" % self.target)["Item"]
        return stored is not None and equal_items(stored, item)


class DeleteItem(_ConditionalWrite):
    __slots__ = ()

    operation = "DeleteItem"

    def result(self, response: ApiResponse, now: float) -> Item | None:
        if self.template.returning is Returning.NOTHING:
            return None
        stored: AttributeMap | None = loads(response.body).get("Attributes")
        old = decode_item(stored) if stored else None
        return old if old is not None and self.table.is_live(old, now) else None

    def is_applied(self, stored: AttributeMap | None, *, is_live: bool) -> bool:  # noqa: ARG002
        return not is_live


class UpdateItem(_ConditionalWrite):
    __slots__ = ()

    operation = "UpdateItem"

    def result(self, response: ApiResponse, _now: float) -> Item | None:
        if self.template.returning is Returning.NOTHING:
            return None
        item: AttributeMap | None = loads(response.body).get("Attributes")
        return decode_item(item) if item else None

    def is_applied(self, stored: AttributeMap | None, *, is_live: bool) -> bool:
        actions = self.expression.expression.actions
        # It changes no expired item, but may be what lets the item expire.
        if stored is None or not (is_live or self.table.table.expiry in actions.sets):
            return False
        return actions.is_applied(stored, self.expression.values)

    def result_if_applied(self, stored: Item | None) -> Item | None:
        return None if self.template.returning is Returning.NOTHING else stored

    async def on_missing_item(self, *, expired: bool, now: float) -> tuple[bool, Item | None]:
        if not self.template.creates:
            return True, None
        if not expired:
            return False, None
        # Nothing of an expired item may be left: it is replaced as a whole.
        table, bound = self.table, self.expression
        key = loads(b"{%b}" % self.key)["Key"]
        item = bound.expression.actions.new_item(key, bound.values)
        request = create_request(table.table, table.name, dumps(item), now)
        try:
            await table.call("PutItem", request)
        except ServiceError as error:
            stored = await self._rejecting_item(error)
            if not self.maybe_applied or stored is None or not equal_items(stored, item):
                return False, None
        return True, decode_item(item) if self.template.returning is Returning.NEW else None
