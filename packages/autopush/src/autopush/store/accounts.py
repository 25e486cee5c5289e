"""Accounts: who may connect user agents and register, where the option `accounts_required` is set.

All of them are in one row of the router table, under a key that is no UAID: a worker reads them
with one get, and keeps them all. Of a token only the SHA-256 is stored, which is enough for random
text of 256 bits.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from autopush.clock import Clock
from autopush.store.tables import ACCOUNTS_ROW
from autopush.webpush.identifiers import hash_secret, new_secret
from keytables import Attr, ConditionFailed, Cursor, Item, Param, TableHandle, Value

MAX_ACCOUNTS: Final = 1000
MAX_FORMER: Final = 2
"""Tokens of an account before the present one that are remembered: all accounts are in one row."""
UNNUMBERED: Final = -1
DEVICES_PER_PAGE: Final = 1000
NAME: Final = re.compile(r"[A-Za-z0-9._@-]{1,64}")

IS_UNCHANGED: Final = Attr("revision").absent() | (Attr("revision") == Param("read"))


class AccountError(ValueError):
    """A change that cannot be made; the text is for the operator."""


class Account(Struct, frozen=True):
    """`token_hash`: hex, and so the identity of the account: one that is added again is another.
    `former`: of tokens that were renewed; what belongs to them belongs to the account.
    `created_at`, `expires_at`: epoch seconds, 0 for never. `connections`: at once at a node, 0 for
    no limit. `number`: below `MAX_ACCOUNTS`, its own while it exists.
    """

    name: str
    token_hash: str
    created_at: int
    connections: int = 0
    number: int = 0
    expires_at: int = 0
    former: tuple[str, ...] = ()

    @property
    def identities(self) -> tuple[str, ...]:
        return (self.token_hash, *self.former)

    def has_expired(self, now: float) -> bool:
        return 0 < self.expires_at <= now


class Accounts:
    """The accounts in the router table. Concurrent changes are repeated, so none is lost."""

    def __init__(self, router: TableHandle, clock: Clock) -> None:
        self._table = router
        self._clock = clock

    async def read(self) -> dict[str, Account]:
        """By name, in the order of their names."""
        return _accounts(await self._table.get((ACCOUNTS_ROW,)))

    async def add(self, name: str, connections: int = 0, *, expires_at: int = 0) -> str:
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
            account = Account(
                name, hash_secret(token), int(self._clock()), connections, number, expires_at
            )
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

    async def renew(self, name: str, *, expires_at: int | None = None) -> str:
        """Give the account another token, which is returned and nowhere else; user agents that
        connected with the former one stay its own. `expires_at`: None leaves it as it is.

        :raises AccountError: there is no such account, or it has expired and still would have
        """
        token = new_secret()

        def with_token(account: Account) -> Account:
            at = account.expires_at if expires_at is None else expires_at
            changed = replace(
                account,
                token_hash=hash_secret(token),
                expires_at=at,
                former=account.identities[:MAX_FORMER],
            )
            if changed.has_expired(self._clock()):
                raise AccountError(f"{name} has expired: give --days, 0 for ever")
            return changed

        await self._change(name, with_token)
        return token

    async def set_quota(self, name: str, connections: int) -> None:
        """:raises AccountError: there is no such account"""
        await self._change(name, lambda account: replace(account, connections=connections))

    async def set_expiry(self, name: str, expires_at: int) -> None:
        """:raises AccountError: there is no such account"""
        await self._change(name, lambda account: replace(account, expires_at=expires_at))

    async def _change(self, name: str, change: Callable[[Account], Account]) -> None:
        while True:
            row, known = await self._read()
            changed = change(_check_known(known, name))
            if await self._write(row, known | {name: changed}):
                return

    async def devices(self) -> Counter[str]:
        """User agents on record by the name of their account; reads the whole table."""
        owners = {
            identity: account.name
            for account in (await self.read()).values()
            for identity in account.identities
        }
        counts = Counter[str]()
        after: Cursor | None = None
        while True:
            page = await self._table.scan(limit=DEVICES_PER_PAGE, after=after)
            for row in page.items:
                if (name := owners.get(str(row.get("account")))) is not None:
                    counts[name] += 1
            after = page.cursor
            if after is None:
                return counts

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
                "expires_at": each.expires_at,
                "former": list(each.former),
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
    accounts: dict[str, Account] = {}
    for name, members in sorted(stored.items()) if isinstance(stored, dict) else ():
        if not isinstance(members, dict):
            continue
        token_hash, created_at = members.get("token_hash"), members.get("created_at")
        if isinstance(token_hash, str) and isinstance(created_at, int):
            connections, number = members.get("connections"), members.get("number")
            expires_at, former = members.get("expires_at"), members.get("former")
            accounts[name] = Account(
                name,
                token_hash,
                created_at,
                connections if isinstance(connections, int) else 0,
                number if isinstance(number, int) and 0 <= number < MAX_ACCOUNTS else UNNUMBERED,
                expires_at if isinstance(expires_at, int) else 0,
                tuple(map(str, former)) if isinstance(former, list) else (),
            )
    # Written before there were numbers; every reader gives the same ones.
    unnumbered = [each for each in accounts.values() if each.number == UNNUMBERED]
    for each, number in zip(unnumbered, _free_numbers(accounts.values()), strict=False):
        accounts[each.name] = replace(each, number=number)
    return accounts


def _free_numbers(accounts: Iterable[Account]) -> Iterator[int]:
    used = {each.number for each in accounts}
    return (number for number in range(MAX_ACCOUNTS) if number not in used)
