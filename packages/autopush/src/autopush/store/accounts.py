"""Accounts: who may connect user agents and register, where the option `accounts_required` is set.

All of them are in one row of the router table, under a key that is no UAID: a worker reads them
with one get, and keeps them all. Of a token only the SHA-256 is stored, which is enough for random
text of 256 bits.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from autopush.clock import Clock
from autopush.store.tables import ACCOUNTS_ROW
from autopush.webpush.identifiers import hash_secret, new_secret
from keytables import Attr, ConditionFailed, Item, Param, TableHandle, Value

MAX_ACCOUNTS: Final = 1000
UNNUMBERED: Final = -1
NAME: Final = re.compile(r"[A-Za-z0-9._@-]{1,64}")

IS_UNCHANGED: Final = Attr("revision").absent() | (Attr("revision") == Param("read"))


class AccountError(ValueError):
    """A change that cannot be made; the text is for the operator."""


class Account(Struct, frozen=True):
    """`token_hash`: hex, and so the identity of the account: one that is added again is another.
    `created_at`: epoch seconds. `connections`: at once at a node, 0 for no limit. `number`: below
    `MAX_ACCOUNTS`, its own while it exists.
    """

    name: str
    token_hash: str
    created_at: int
    connections: int = 0
    number: int = 0


class Accounts:
    """The accounts in the router table. Concurrent changes are repeated, so none is lost."""

    def __init__(self, router: TableHandle, clock: Clock) -> None:
        self._table = router
        self._clock = clock

    async def read(self) -> dict[str, Account]:
        """By name, in the order of their names."""
        return _accounts(await self._table.get((ACCOUNTS_ROW,)))

    async def add(self, name: str, connections: int = 0) -> str:
        """Returns the token, which is nowhere else.

        :raises AccountError: the name is taken or not a name, or there are `MAX_ACCOUNTS`
        """
        if NAME.fullmatch(name) is None:
            raise AccountError("a name has 1 to 64 of A-Z a-z 0-9 . _ @ -")
        token = new_secret()
        while True:
            row, known = await self._read()
            if name in known:
                raise AccountError(f"there is a user {name} already")
            if len(known) >= MAX_ACCOUNTS:
                raise AccountError(f"there are {MAX_ACCOUNTS} users, which is the most")
            number = next(_free_numbers(known.values()))
            account = Account(name, hash_secret(token), int(self._clock()), connections, number)
            if await self._write(row, known | {name: account}):
                return token

    async def revoke(self, name: str) -> None:
        """:raises AccountError: there is no such account"""
        while True:
            row, known = await self._read()
            _check_known(known, name)
            del known[name]
            if await self._write(row, known):
                return

    async def set_quota(self, name: str, connections: int) -> None:
        """:raises AccountError: there is no such account"""
        while True:
            row, known = await self._read()
            old = _check_known(known, name)
            changed = replace(old, connections=connections)
            if await self._write(row, known | {name: changed}):
                return

    async def _read(self) -> tuple[Item | None, dict[str, Account]]:
        row = await self._table.get((ACCOUNTS_ROW,))
        return row, _accounts(row)

    async def _write(self, read: Item | None, accounts: dict[str, Account]) -> bool:
        """False if the row has changed since it was read."""
        revision = (read or {}).get("revision")
        before = revision if isinstance(revision, int) else 0
        stored: dict[str, Value] = {
            each.name: {
                "token_hash": each.token_hash,
                "created_at": each.created_at,
                "connections": each.connections,
                "number": each.number,
            }
            for each in accounts.values()
        }
        row: Item = {"uaid": ACCOUNTS_ROW, "revision": before + 1, "accounts": stored}
        try:
            await self._table.put(row, condition=IS_UNCHANGED, values={"read": before})
        except ConditionFailed:
            return False
        return True


def _check_known(accounts: dict[str, Account], name: str) -> Account:
    if (account := accounts.get(name)) is None:
        raise AccountError(f"there is no user {name}" if NAME.fullmatch(name) else "no such user")
    return account


def _accounts(row: Item | None) -> dict[str, Account]:
    stored = (row or {}).get("accounts")
    found: dict[str, Account] = {}
    for name, members in sorted(stored.items()) if isinstance(stored, dict) else ():
        if not isinstance(members, dict):
            continue
        token_hash, created_at = members.get("token_hash"), members.get("created_at")
        if isinstance(token_hash, str) and isinstance(created_at, int):
            connections, number = members.get("connections"), members.get("number")
            found[name] = Account(
                name,
                token_hash,
                created_at,
                connections if isinstance(connections, int) else 0,
                number if isinstance(number, int) and 0 <= number < MAX_ACCOUNTS else UNNUMBERED,
            )
    # Written before there were numbers; every reader gives the same ones.
    unnumbered = [each for each in found.values() if each.number == UNNUMBERED]
    for each, number in zip(unnumbered, _free_numbers(found.values()), strict=False):
        found[each.name] = replace(each, number=number)
    return found


def _free_numbers(accounts: Iterable[Account]) -> Iterator[int]:
    taken = {each.number for each in accounts}
    return (number for number in range(MAX_ACCOUNTS) if number not in taken)
