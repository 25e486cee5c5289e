"""Writes that look at the stored item, from the call to its answer.

The one rule: a write whose reply was lost is known by what it left. When its condition fails on a
later try, and the item is as this write leaves it, the write is done.
"""

from abc import ABC, abstractmethod
from typing import ClassVar, Final

from keytables.dynamodb.client import Reply
from keytables.dynamodb.codec import WireItem, dumps, item_of, loads, same_items
from keytables.dynamodb.remote import Remote
from keytables.dynamodb.retries import ServiceError
from keytables.dynamodb.templates import Bound, beginning
from keytables.errors import ConditionFailed, Throttled, Unavailable
from keytables.expressions import Returning
from keytables.values import Item

__all__ = ["JudgedDelete", "JudgedPut", "JudgedUpdate"]

TRIES: Final = 10
"""Times that a write is begun anew because the item it was judged on has changed meanwhile."""


class _Judged(ABC):
    """A write with a condition, or one that answers; await the call of it.

    ``key``: the item's key as a member in JSON; ``item``: the whole item, for a put. ``stated``:
    the caller set a condition; ``on_nothing``: it holds where there is no item.
    """

    __slots__ = (
        "bound",
        "key",
        "on_nothing",
        "remote",
        "repeated",
        "request",
        "returning",
        "stated",
    )

    operation: ClassVar[str]

    def __init__(
        self,
        remote: Remote,
        bound: Bound,
        key: bytes,
        *,
        item: bytes | None = None,
        stated: bool,
        on_nothing: bool,
        returning: Returning = Returning.NOTHING,
    ) -> None:
        self.remote, self.bound, self.key = remote, bound, key
        self.request = bound.request(key if item is None else b'"Item":' + item)
        self.stated, self.on_nothing, self.returning = stated, on_nothing, returning
        self.repeated = False

    @property
    def size(self) -> int:
        """Bytes of the request."""
        return len(self.request.begin) + len(self.request.end)

    async def __call__(self) -> Item | None:
        remote, request = self.remote, self.request
        try:
            for _ in range(TRIES):
                now = remote.clock()
                try:
                    return self.answer(await remote.call(self.operation, request.at(now)), now)
                except ServiceError as error:
                    stored = await self._refused(error)
                item = None if stored is None else item_of(stored)
                alive = item is not None and remote.alive(item, now)
                if self.repeated and self.done(stored, alive=alive):
                    return self.answer_when_done(item)
                if alive and self.stated:
                    raise ConditionFailed(item)
                if not alive and not self.on_nothing:
                    raise ConditionFailed(None)
                if not alive:
                    done, answer = await self.on_absent(dead=item is not None, now=now)
                    if done:
                        return answer
            raise Throttled(
                f"{self.operation} on table {remote.table.name!r}: the item never stays as it is"
            )
        except Throttled as error:
            if not self.repeated:
                raise
            raise Unavailable(f"{error}; an earlier try may have been applied") from error

    def answer(self, _reply: Reply, _now: float) -> Item | None:
        """Return the answer for a write that was applied at ``now``."""
        return None

    @abstractmethod
    def done(self, stored: WireItem | None, *, alive: bool) -> bool:
        """Whether an earlier try of this write can have left what is stored."""

    def answer_when_done(self, _stored: Item | None) -> Item | None:
        """Return the answer for a write that is found done."""
        return None

    async def on_absent(self, *, dead: bool, now: float) -> tuple[bool, Item | None]:  # noqa: ARG002
        """Do what is to be done where there is no item, or an expired one; whether that was all of
        it, and the answer. If it was not, the write is tried again.
        """
        return False, None

    async def _refused(self, error: ServiceError) -> WireItem | None:
        self.repeated = self.repeated or error.repeated
        return await self.remote.refused(error, self.key)


class JudgedPut(_Judged):
    """Store the item if the condition holds."""

    __slots__ = ()

    operation = "PutItem"

    def done(self, stored: WireItem | None, *, alive: bool) -> bool:  # noqa: ARG002
        # Alive or not: it may be put as one that has expired.
        return stored is not None and same_items(stored, loads(self.request.at(0))["Item"])


class JudgedDelete(_Judged):
    """Delete the item if the condition holds, and return it if asked for."""

    __slots__ = ()

    operation = "DeleteItem"

    def answer(self, reply: Reply, now: float) -> Item | None:
        if self.returning is Returning.NOTHING:
            return None
        sent: WireItem | None = loads(reply.body).get("Attributes")
        old = item_of(sent) if sent else None
        return old if old is not None and self.remote.alive(old, now) else None

    def done(self, stored: WireItem | None, *, alive: bool) -> bool:  # noqa: ARG002
        return not alive


class JudgedUpdate(_Judged):
    """Change attributes of the item if the condition holds, making it if it ``creates``."""

    __slots__ = ("creates",)

    operation = "UpdateItem"
    creates: bool

    def answer(self, reply: Reply, _now: float) -> Item | None:
        if self.returning is Returning.NOTHING:
            return None
        item: WireItem | None = loads(reply.body).get("Attributes")
        return item_of(item) if item else None

    def done(self, stored: WireItem | None, *, alive: bool) -> bool:
        parts = self.bound.wording.parts
        # It changes nothing that has expired, but may be what lets the item expire.
        if stored is None or not (alive or self.remote.table.expiry in parts.assigned):
            return False
        return parts.done(stored, self.bound.values)

    def answer_when_done(self, stored: Item | None) -> Item | None:
        return None if self.returning is Returning.NOTHING else stored

    async def on_absent(self, *, dead: bool, now: float) -> tuple[bool, Item | None]:
        if not self.creates:
            return True, None
        if not dead:
            return False, None
        # Nothing of an expired item may be left: it is replaced as a whole.
        remote, bound = self.remote, self.bound
        made = bound.wording.parts.made_of_nothing(loads(b"{%b}" % self.key)["Key"], bound.values)
        request = beginning(remote.table, remote.name).request(b'"Item":' + dumps(made))
        try:
            await remote.call("PutItem", request.at(now))
        except ServiceError as error:
            stored = await self._refused(error)
            if not self.repeated or stored is None or not same_items(stored, made):
                return False, None
        return True, item_of(made) if self.returning is Returning.NEW else None
